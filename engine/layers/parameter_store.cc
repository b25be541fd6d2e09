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
      owned_(spec::OwnedRanges(layout_, parallel, groups.layout, groups.world.rank())) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const spec::ParameterSpec& parameter = parameters_[i];
    const Communicator& sharers = parameter.is_expert ? *groups.expert_tensor : *groups.tensor;
    slices_.push_back(spec::SliceOf(parameter, sharers.size(), sharers.rank()));
    const bool is_new = index_by_name_.emplace(parameter.name, i).second;
    TESSERA_CHECK(is_new, "two parameters named ", parameter.name);
  }
  weights_ = pool.Allocate(MemoryKind::kWeights, types.parameter, layout_.num_elements);
  gradients_ = pool.Allocate(MemoryKind::kGradients, types.gradient, layout_.num_elements);
}

void ParameterStore::DrawInitialWeights(uint64_t seed, float* weights) const {
  std::fill_n(weights, layout_.num_elements, 0.0F);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const spec::ParameterSpec& parameter = parameters_[i];
    float* const out = weights + layout_.parameters[i].offset;
    switch (parameter.init) {
      case spec::InitKind::kZeros:
        break;
      case spec::InitKind::kOnes:
        std::fill_n(out, layout_.parameters[i].num_elements, 1.0F);
        break;
      case spec::InitKind::kNormal:
        FillNormalSlice(parameter, slices_[i], base::MakePhiloxKey(seed, parameter.name), out);
        break;
    }
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
  const int64_t offset = layout_.parameters[found->second].offset;
  return {.weight = weights().At(offset), .grad = gradients().At(offset)};
}

}  // namespace tessera::engine
