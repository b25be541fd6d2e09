#include "engine/train/replica_check.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cost_model/base/check.h"
#include "cost_model/base/float16.h"
#include "engine/checkpoint/collective_work.h"
#include "engine/checkpoint/crc32.h"
#include "engine/comm/gather.h"
#include "engine/layers/held_parts.h"

namespace tessera::engine {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;  // of device memory on its way to a checksum

// What is told to the other ranks of one part.
struct Fingerprint {
  uint64_t part = 0;  // which part of which parameter: equal where ranks hold the same one
  uint32_t checksum = 0;
  uint32_t index = 0;  // into the list of the rank that tells
};

// The ranks that hold one part, ascending.
struct Holder {
  int rank = 0;
  Fingerprint print;
};

// FNV-1a (Fowler, Noll, Vo): 64 bits tell some thousands of parts apart.
uint64_t HashText(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

uint64_t IdentityOf(const ParameterStore& store, const HeldPart& part) {
  const spec::LocalSlice& slice = store.slices()[part.parameter];
  std::string text = base::Concat(store.parameters()[part.parameter].name, '|', slice.dim, '|',
                                  slice.begin, '|', slice.size, '|', part.first, '|', part.count);
  for (const int64_t size : slice.shape) text += base::Concat('|', size);
  return HashText(text);
}

// Hands the bytes of an array to `read`, piece by piece through host memory where they are not
// there.
void ReadPieces(kernels::Backend& backend, kernels::Array array, int64_t num_bytes,
                const std::function<void(std::span<const std::byte>)>& read) {
  const auto* const bytes = static_cast<const std::byte*>(array.data);
  if (backend.is_host_memory()) return read({bytes, static_cast<size_t>(num_bytes)});
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPieceBytes, num_bytes)));
  for (int64_t begin = 0; begin < num_bytes; begin += kPieceBytes) {
    const auto size = static_cast<size_t>(std::min(kPieceBytes, num_bytes - begin));
    backend.CopyToHost(piece.data(), bytes + begin, size);
    read({piece.data(), size});
  }
}

int64_t BytesOf(const HeldPart& part) { return part.count * base::SizeBytes(part.data.dtype); }

std::vector<std::byte> BytesOnHost(kernels::Backend& backend, const HeldPart& part) {
  std::vector<std::byte> bytes;
  ReadPieces(backend, part.data, BytesOf(part), [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

double ValueAt(const std::byte* element, base::DType dtype) {
  if (dtype == base::DType::kFloat32) {
    float value;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, element, sizeof(bits));
  return dtype == base::DType::kBFloat16 ? base::BFloat16ToFloat(bits) : base::Float16ToFloat(bits);
}

// "rank 2", "ranks 0, 1 and 3"
std::string RanksText(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

// Of the holders of one part, those with the bits that most have, and the others.
struct Votes {
  std::vector<int> most, others;
  bool is_tied = false;
};

Votes CountVotes(const std::vector<Holder>& holders) {
  std::map<uint32_t, int> count;
  int most = 0;
  for (const Holder& holder : holders) most = std::max(most, ++count[holder.print.checksum]);
  // Of equally many the lowest rank's.
  const auto winner = std::find_if(holders.begin(), holders.end(), [&](const Holder& holder) {
    return count[holder.print.checksum] == most;
  });
  Votes votes;
  for (const Holder& holder : holders) {
    const bool is_most = holder.print.checksum == winner->print.checksum;
    (is_most ? votes.most : votes.others).push_back(holder.rank);
  }
  votes.is_tied = std::count_if(count.begin(), count.end(),
                                [&](const auto& entry) { return entry.second == most; }) > 1;
  return votes;
}

class ReplicaChecker {
 public:
  ReplicaChecker(const ParameterStore& store, kernels::Backend& backend, Communicator& world,
                 ReplicaKind kind, int64_t step)
      : store_(store),
        backend_(backend),
        world_(world),
        kind_(kind),
        step_(step),
        parts_(kind == ReplicaKind::kWeights ? HeldWeights(store) : HeldGradients(store)) {}

  ReplicaCheck Run() {
    ReplicaCheck check;
    std::vector<Fingerprint> mine;
    for (const HeldPart& part : parts_) {
      uint32_t checksum = 0;
      ReadPieces(backend_, part.data, BytesOf(part),
                 [&](std::span<const std::byte> piece) { checksum = Crc32(piece, checksum); });
      mine.push_back({IdentityOf(store_, part), checksum, static_cast<uint32_t>(mine.size())});
      check.num_bytes += BytesOf(part);
    }
    const std::vector<std::vector<Holder>> wrong = FindDifferent(mine, check.num_replicated);
    if (!wrong.empty()) Fail(wrong);
    return check;
  }

 private:
  // Parts whose holders disagree, in the order in which the lowest of them lists its parts.
  std::vector<std::vector<Holder>> FindDifferent(const std::vector<Fingerprint>& mine,
                                                 int64_t& num_replicated) {
    std::map<uint64_t, std::vector<Holder>> holders;
    std::vector<uint64_t> order;
    const std::vector<std::vector<Fingerprint>> all = GatherLists(mine, world_);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      for (const Fingerprint& print : all[rank]) {
        std::vector<Holder>& of_part = holders[print.part];
        if (of_part.empty()) order.push_back(print.part);
        of_part.push_back({static_cast<int>(rank), print});
      }
    }
    std::vector<std::vector<Holder>> different;
    for (const uint64_t part : order) {
      const std::vector<Holder>& of_part = holders[part];
      if (of_part.size() > 1) ++num_replicated;
      const bool agrees = std::all_of(of_part.begin(), of_part.end(), [&](const Holder& holder) {
        return holder.print.checksum == of_part.front().print.checksum;
      });
      if (!agrees) different.push_back(of_part);
    }
    return different;
  }

  const HeldPart* MyPart(const std::vector<Holder>& holders) const {
    for (const Holder& holder : holders) {
      if (holder.rank == world_.rank()) return &parts_[holder.print.index];
    }
    return nullptr;
  }

  // "element 17 is 0.5 on rank 2 and 0.25 on rank 0": the first that differs between the two. What
  // a rank tells, every rank knows.
  std::string FirstDifference(const std::vector<Holder>& holders, int other, int reference) {
    const HeldPart* const part = MyPart(holders);
    std::vector<std::byte> bytes;
    if (world_.rank() == reference) bytes = BytesOnHost(backend_, *part);
    auto num_bytes = static_cast<int64_t>(bytes.size());
    world_.Broadcast(&num_bytes, 1, base::DType::kInt64, reference);
    bytes.resize(static_cast<size_t>(num_bytes));
    world_.Broadcast(bytes.data(), num_bytes, base::DType::kUInt8, reference);
    std::string text;
    if (world_.rank() == other) {
      const std::vector<std::byte> own = BytesOnHost(backend_, *part);
      const auto at = std::mismatch(own.begin(), own.end(), bytes.begin()).first - own.begin();
      const base::DType dtype = part->data.dtype;
      const int64_t element = at / base::SizeBytes(dtype);
      const int64_t begin = element * base::SizeBytes(dtype);
      std::ostringstream stream;
      stream.precision(9);  // tells all fp32 numbers apart
      stream << "element " << part->first + element << " of the slice is "
             << ValueAt(own.data() + begin, dtype) << " on rank " << other << " and "
             << ValueAt(bytes.data() + begin, dtype) << " on rank " << reference;
      text = stream.str();
    }
    return BroadcastText(world_, text, other);
  }

  [[noreturn]] void Fail(const std::vector<std::vector<Holder>>& wrong) {
    const std::vector<Holder>& first = wrong.front();
    const Votes votes = CountVotes(first);
    const int reference = votes.most.front();
    const HeldPart* const part = MyPart(first);
    const std::string name = BroadcastText(
        world_, part != nullptr ? store_.parameters()[part->parameter].name : "", reference);
    const std::string difference = FirstDifference(first, votes.others.front(), reference);
    const char* const what = kind_ == ReplicaKind::kWeights ? "weight" : "reduced gradient";
    std::string message =
        base::Concat("replicas of the ", what, " ", name, " differ ",
                     step_ == 0 ? std::string("at the start") : base::Concat("after step ", step_),
                     ": ", RanksText(votes.others), votes.others.size() == 1 ? " holds" : " hold",
                     " other bits than ", RanksText(votes.most),
                     votes.is_tied ? ", and no majority says which are right; " : "; ", difference);
    if (wrong.size() > 1) {
      message += base::Concat("; so do replicas of ", wrong.size() - 1, " more part",
                              wrong.size() > 2 ? "s" : "", " of parameters");
    }
    throw ReplicaError(message);
  }

  const ParameterStore& store_;
  kernels::Backend& backend_;
  Communicator& world_;
  const ReplicaKind kind_;
  const int64_t step_;
  const std::vector<HeldPart> parts_;
};

}  // namespace

ReplicaCheck CheckReplicas(const ParameterStore& store, kernels::Backend& backend,
                           Communicator& host_world, ReplicaKind kind, int64_t step) {
  return ReplicaChecker(store, backend, host_world, kind, step).Run();
}

}  // namespace tessera::engine
