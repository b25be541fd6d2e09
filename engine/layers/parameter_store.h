// The parameters of one rank: weights and gradients, each in one flat buffer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost_model/spec/owned_ranges.h"
#include "cost_model/spec/training_spec.h"
#include "engine/comm/process_groups.h"
#include "engine/tensor/memory_pool.h"

namespace tessera::engine {

struct Parameter {
  kernels::Array weight;  // local slice, row-major, in the parameters' type
  kernels::Array grad;    // fp32, accumulates over the micro-batches of a step
};

class ParameterStore {
 public:
  // Parameters of all virtual stages of this rank, laid out one after the other, its experts behind
  // the others. Not initialised.
  ParameterStore(const std::vector<spec::VirtualStage>& stages, const spec::ModelSpec& model,
                 const spec::ParallelSpec& parallel, const spec::PrecisionTypes& types,
                 const ProcessGroups& groups, MemoryPool& pool);

  // The weights to start from, of all of the flat buffer, drawn by (seed, parameter name, global
  // element index): the same for every layout. `weights`: host memory [layout().num_elements].
  void DrawInitialWeights(uint64_t seed, float* weights) const;

  // A parameter of this rank by name. Fails a check when it is not here.
  Parameter Get(const std::string& name) const;
  // The same, all absent where the model has none (a bias, say).
  Parameter GetOptional(const std::string& name) const;

  const std::vector<spec::ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<spec::LocalSlice>& slices() const { return slices_; }
  const spec::FlatLayout& layout() const { return layout_; }
  // What this rank updates.
  const std::vector<spec::OwnedRange>& owned() const { return owned_; }
  int64_t num_owned() const { return spec::NumOwnedElements(owned_); }
  kernels::Array weights() const { return weights_.array(); }
  kernels::Array gradients() const { return gradients_.array(); }

 private:
  std::vector<spec::ParameterSpec> parameters_;
  std::vector<spec::LocalSlice> slices_;
  spec::FlatLayout layout_;
  std::vector<spec::OwnedRange> owned_;
  std::map<std::string, size_t> index_by_name_;
  Buffer weights_;
  Buffer gradients_;
};

}  // namespace tessera::engine
