// The parameters of one rank: weights and gradients, each in one flat buffer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost_model/spec/flat_layout.h"
#include "engine/tensor/memory_pool.h"

namespace tessera::engine {

struct Parameter {
  float* weight = nullptr;  // local slice, row-major
  float* grad = nullptr;    // accumulates over the micro-batches of a step
};

class ParameterStore {
 public:
  // Parameters of all virtual stages of this rank, laid out one after the other. Not initialised.
  ParameterStore(const std::vector<spec::VirtualStage>& stages, const spec::ModelSpec& model,
                 const spec::ParallelSpec& parallel, int tensor_rank, MemoryPool& pool);

  // Fills the weights from (seed, parameter name, global element index): the same for every layout.
  void Initialize(uint64_t seed);

  // A parameter of this rank by name. Fails a check when it is not here.
  Parameter Get(const std::string& name) const;
  // The same, all null where the model has none (a bias, say).
  Parameter GetOptional(const std::string& name) const;

  const std::vector<spec::ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<spec::LocalSlice>& slices() const { return slices_; }
  const spec::FlatLayout& layout() const { return layout_; }
  float* weights() const { return weights_.f32(); }
  float* gradients() const { return gradients_.f32(); }

 private:
  std::vector<spec::ParameterSpec> parameters_;
  std::vector<spec::LocalSlice> slices_;
  spec::FlatLayout layout_;
  std::map<std::string, size_t> index_by_name_;
  Buffer weights_;
  Buffer gradients_;
};

}  // namespace tessera::engine
