#include "engine/optimizer/reduction_check.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cost_model/base/check.h"
#include "engine/comm/gather.h"
#include "engine/optimizer/holders.h"

namespace tessera::engine {
namespace {

// What one fp32 addition may be off by, twice over.
constexpr double kRounding = 0x1p-23;

// In [-1, 1), of the element's number alone. Plain sums tell too little: of what feeds a layer norm
// the gradients add up to zero whichever ranks they come from. The mixing is SplitMix64's (Steele,
// Lea, Flood 2014).
double WeightOf(int64_t element) {
  uint64_t bits = static_cast<uint64_t>(element + 1) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>(static_cast<int64_t>(bits ^ (bits >> 31))) * 0x1p-63;
}

}  // namespace

ReductionCheck::ReductionCheck(const ParameterStore& store, const ProcessGroups& groups,
                               kernels::Backend& backend)
    : store_(store), groups_(groups), backend_(backend) {
  const spec::FlatLayout& layout = store.layout();
  for (size_t b = 0; b < layout.buckets.size(); ++b) {
    const spec::FlatBucket& bucket = layout.buckets[b];
    const int num_shards = ShardGroupOf(groups, bucket.is_expert).size();
    if (num_shards == 1) continue;
    const int64_t shard_size = bucket.num_elements / num_shards;
    for (int shard = 0; shard < num_shards; ++shard) {
      const int64_t shard_begin = bucket.offset + shard * shard_size;
      for (int i = 0; i < bucket.num_parameters; ++i) {
        const auto parameter = static_cast<size_t>(bucket.first_parameter + i);
        const spec::FlatParameter& place = layout.parameters[parameter];
        const int64_t begin = std::max(place.offset, shard_begin);
        const int64_t end = std::min(place.offset + place.num_elements, shard_begin + shard_size);
        if (begin < end) pieces_.push_back({b, parameter, shard, begin, end - begin});
      }
    }
  }
  put_in_.resize(pieces_.size());
  kept_.resize(pieces_.size());
}

ReductionCheck::Sums ReductionCheck::SumsOf(kernels::Array gradients, int64_t num_elements) const {
  TESSERA_CHECK(gradients.dtype == base::DType::kFloat32, "gradients add up in fp32");
  std::vector<float> on_host;
  const auto* values = static_cast<const float*>(gradients.data);
  if (!backend_.is_host_memory()) {
    on_host.resize(static_cast<size_t>(num_elements));
    backend_.CopyToHost(on_host.data(), values, on_host.size() * sizeof(float));
    values = on_host.data();
  }
  Sums sums;
  for (int64_t i = 0; i < num_elements; ++i) {
    const double value = WeightOf(i) * values[i];
    sums.sum += value;
    sums.magnitude += std::abs(value);
  }
  return sums;
}

bool ReductionCheck::IsOwn(const Piece& piece) const {
  const bool is_expert = store_.layout().buckets[piece.bucket].is_expert;
  return ShardGroupOf(groups_, is_expert).rank() == piece.shard;
}

void ReductionCheck::BeforeScatter(size_t bucket, kernels::Array gradients) {
  const int64_t begin = store_.layout().buckets[bucket].offset;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (piece.bucket != bucket) continue;
    const Sums sums = SumsOf(gradients.At(piece.offset - begin), piece.num_elements);
    put_in_[i].sum += sums.sum;
    put_in_[i].magnitude += sums.magnitude;
  }
}

void ReductionCheck::AfterScatter() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (!IsOwn(piece)) continue;
    const spec::OwnedRange& own = store_.owned()[piece.bucket];
    kept_[i] = SumsOf(store_.OwnGradients(own, piece.offset - own.offset), piece.num_elements);
  }
}

std::string ReductionCheck::MistakeIn(size_t index,
                                      const std::vector<std::vector<Sums>>& put_in) const {
  const Piece& piece = pieces_[index];
  const bool is_expert = store_.layout().buckets[piece.bucket].is_expert;
  const int rank = groups_.world.rank();
  const std::vector<int> group =
      groups_.layout.GroupOf(rank, is_expert ? spec::Axis::kExpertShard : spec::Axis::kShard);
  Sums expected;
  for (const int member : group) {
    const Sums& part = put_in[static_cast<size_t>(member)][index];
    expected.sum += part.sum;
    expected.magnitude += part.magnitude;
  }
  // A loss that is no number has its own handling.
  if (!std::isfinite(expected.magnitude)) return "";
  const double allowed = static_cast<double>(group.size()) * kRounding * expected.magnitude;
  const double excess = kept_[index].sum - expected.sum;
  if (std::abs(excess) <= allowed) return "";
  std::ostringstream text;
  text << "the reduced gradient " << store_.parameters()[piece.parameter].name << " of rank "
       << rank << " is not the sum of " << group.size() << " ranks' gradients: its "
       << piece.num_elements << " elements from "
       << piece.offset - store_.layout().parameters[piece.parameter].offset
       << " on have the checksum " << kept_[index].sum << ", the ranks' together " << expected.sum;
  const auto is_left_out = [&](int member) {
    return std::abs(excess + put_in[static_cast<size_t>(member)][index].sum) <= allowed;
  };
  const auto left_out = std::find_if(group.begin(), group.end(), is_left_out);
  if (std::abs(kept_[index].sum - put_in_[index].sum) <= allowed) {
    text << "; it holds its own gradient alone, as if it had not been reduced";
  } else if (left_out != group.end()) {
    text << "; what rank " << *left_out << " put in is missing";
  }
  return text.str();
}

std::string ReductionCheck::FindMistake(Communicator& host_world) const {
  const std::vector<std::vector<Sums>> put_in = GatherLists(put_in_, host_world);
  std::string mistake;
  for (size_t i = 0; i < pieces_.size() && mistake.empty(); ++i) {
    if (IsOwn(pieces_[i])) mistake = MistakeIn(i, put_in);
  }
  const std::vector<char> mine(mistake.begin(), mistake.end());
  for (const std::vector<char>& text : GatherLists(mine, host_world)) {
    if (!text.empty()) return std::string(text.begin(), text.end());
  }
  return "";
}

}  // namespace tessera::engine
