#include "engine/layers/parameter_store.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/base/philox.h"

namespace tessera::engine {
namespace {

// Writes the local slice of a normally distributed parameter. Rows of the slice are runs of
// consecutive global elements.
void FillNormalSlice(const spec::ParameterSpec& parameter, const spec::LocalSlice& slice,
                     base::PhiloxKey key, float* out) {
  const auto standard_deviation = static_cast<float>(parameter.init_standard_deviation);
  const int dim = std::max(slice.dim, 0);
  int64_t outer = 1;  // product of the dimensions before the split one
  int64_t inner = 1;  // and after it
  for (int d = 0; d < dim; ++d) outer *= slice.shape[d];
  for (size_t d = dim + 1; d < slice.shape.size(); ++d) inner *= slice.shape[d];
  const int64_t global_size = parameter.global_shape[dim];
  const int64_t begin = slice.dim < 0 ? 0 : slice.begin;
  const int64_t size = slice.dim < 0 ? global_size : slice.size;
  for (int64_t o = 0; o < outer; ++o) {
    base::FillNormal(key, static_cast<uint64_t>((o * global_size + begin) * inner), size * inner,
                     standard_deviation, out + o * slice.shape[dim] * inner);
  }
}

}  // namespace

ParameterStore::ParameterStore(const std::vector<spec::VirtualStage>& stages,
                               const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
                               const spec::PrecisionTypes& types, const ProcessGroups& groups,
                               MemoryPool& pool)
    : parameters_(spec::RankParameters(model, parallel, stages, groups.expert->rank())),
      layout_(spec::MakeFlatLayout(parameters_, parallel)),
      owned_(spec::OwnedRanges(layout_, parallel, groups.layout, groups.world.rank())),
      parts_(stages, parameters_, layout_, model, parallel),
      keeps_owned_weights_(parallel.zero_stage == 3),
      keeps_owned_gradients_(spec::ReducesEachMicrobatch(parallel)),
      bucket_of_(parameters_.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const spec::ParameterSpec& parameter = parameters_[i];
    const Communicator& sharers = parameter.is_expert ? *groups.expert_tensor : *groups.tensor;
    slices_.push_back(spec::SliceOf(parameter, sharers.size(), sharers.rank()));
    const bool is_new = index_by_name_.emplace(parameter.name, i).second;
    TESSERA_CHECK(is_new, "two parameters named ", parameter.name);
  }
  for (size_t i = 0; i < layout_.buckets.size(); ++i) {
    const auto first = bucket_of_.begin() + layout_.buckets[i].first_parameter;
    std::fill_n(first, layout_.buckets[i].num_parameters, i);
  }
  weights_ = pool.Allocate(MemoryKind::kWeights, types.parameter, num_weights());
  gradients_ = pool.Allocate(MemoryKind::kGradients, types.gradient, num_gradients());
  const auto allocate_whole = [&](base::DType dtype, int64_t elements) {
    if (elements == 0) return Buffer();
    return pool.Allocate(MemoryKind::kWorkspace, dtype, elements, Lifetime::kStep);
  };
  whole_weights_ = allocate_whole(types.parameter, parts_.gathered_elements());
  whole_gradients_ = allocate_whole(types.gradient, parts_.unreduced_elements());
}

kernels::Array ParameterStore::WholeWeights(size_t bucket) const {
  if (!keeps_owned_weights_) return weights().At(layout_.buckets[bucket].offset);
  const Part* const part = parts_.OfBucket(bucket);
  if (part == nullptr) return OwnWeights(owned_[bucket]);  // all of it
  return whole_weights_.array().At(part->gathered_offset + parts_.OffsetInPart(bucket));
}

kernels::Array ParameterStore::WholeGradients(size_t bucket) const {
  if (!keeps_owned_gradients_) return gradients().At(layout_.buckets[bucket].offset);
  const Part* const part = parts_.OfBucket(bucket);
  if (part == nullptr) return OwnGradients(owned_[bucket]);
  return WholeGradients(*part).At(parts_.OffsetInPart(bucket));
}

void ParameterStore::DrawInitialWeights(uint64_t seed, float* weights) const {
  std::fill_n(weights, num_weights(), 0.0F);
  std::vector<float> whole;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const spec::FlatParameter& place = layout_.parameters[i];
    if (!keeps_owned_weights_) {
      DrawParameter(i, seed, weights + place.offset);
      continue;
    }
    whole.assign(static_cast<size_t>(place.num_elements), 0.0F);
    DrawParameter(i, seed, whole.data());
    const spec::OwnedRange& range = owned_[bucket_of_[i]];
    const int64_t begin = std::max(range.offset, place.offset);
    const int64_t end =
        std::min(range.offset + range.num_elements, place.offset + place.num_elements);
    if (begin >= end) continue;
    std::copy(whole.begin() + (begin - place.offset), whole.begin() + (end - place.offset),
              weights + range.state_offset + (begin - range.offset));
  }
}

void ParameterStore::DrawParameter(size_t index, uint64_t seed, float* out) const {
  const spec::ParameterSpec& parameter = parameters_[index];
  switch (parameter.init) {
    case spec::InitKind::kZeros:
      break;
    case spec::InitKind::kOnes:
      std::fill_n(out, layout_.parameters[index].num_elements, 1.0F);
      break;
    case spec::InitKind::kNormal:
      FillNormalSlice(parameter, slices_[index], base::MakePhiloxKey(seed, parameter.name), out);
      break;
  }
}

Parameter ParameterStore::Get(const std::string& name) const {
  const Parameter parameter = GetOptional(name);
  TESSERA_CHECK(static_cast<bool>(parameter.weight), "no parameter ", name, " on this rank");
  return parameter;
}

Parameter ParameterStore::GetOptional(const std::string& name) const {
  const auto found = index_by_name_.find(name);
  if (found == index_by_name_.end()) return {};
  const size_t bucket = bucket_of_[found->second];
  const int64_t offset = layout_.parameters[found->second].offset - layout_.buckets[bucket].offset;
  return {.weight = WholeWeights(bucket).At(offset), .grad = WholeGradients(bucket).At(offset)};
}

}  // namespace tessera::engine
