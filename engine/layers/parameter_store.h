// The parameters of one rank: weights and gradients, each in one flat buffer. Those that ZeRO keeps
// in shards are there as the rank's own shards; what is whole for a while is so in a block beside
// them, see PartTable.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost_model/spec/owned_ranges.h"
#include "cost_model/spec/training_spec.h"
#include "engine/comm/process_groups.h"
#include "engine/layers/part_table.h"
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

  // The weights to start from, drawn by (seed, parameter name, global element index): the same for
  // every layout. `weights`: host memory [num_weights()].
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
  const PartTable& parts() const { return parts_; }

  // Weights that are here for good: all of the flat buffer, or the owned ranges one after the
  // other.
  bool keeps_owned_weights() const { return keeps_owned_weights_; }
  int64_t num_weights() const { return keeps_owned_weights_ ? num_owned() : layout_.num_elements; }
  kernels::Array weights() const { return weights_.array(); }
  // The same of gradients.
  bool keeps_owned_gradients() const { return keeps_owned_gradients_; }
  int64_t num_gradients() const {
    return keeps_owned_gradients_ ? num_owned() : layout_.num_elements;
  }
  kernels::Array gradients() const { return gradients_.array(); }

  // `element`: one of an owned range, counted from its start.
  kernels::Array OwnWeights(const spec::OwnedRange& range, int64_t element = 0) const {
    return weights().At((keeps_owned_weights_ ? range.state_offset : range.offset) + element);
  }
  kernels::Array OwnGradients(const spec::OwnedRange& range, int64_t element = 0) const {
    return gradients().At((keeps_owned_gradients_ ? range.state_offset : range.offset) + element);
  }
  // All of a bucket, where passes use it.
  kernels::Array WholeWeights(size_t bucket) const;
  kernels::Array WholeGradients(size_t bucket) const;
  // The gradients of all sharded buckets of a part, which lie together.
  kernels::Array WholeGradients(const Part& part) const {
    return whole_gradients_.array().At(part.unreduced_offset);
  }

 private:
  void DrawParameter(size_t index, uint64_t seed, float* out) const;

  std::vector<spec::ParameterSpec> parameters_;
  std::vector<spec::LocalSlice> slices_;
  spec::FlatLayout layout_;
  std::vector<spec::OwnedRange> owned_;
  PartTable parts_;
  bool keeps_owned_weights_;
  bool keeps_owned_gradients_;
  std::map<std::string, size_t> index_by_name_;
  std::vector<size_t> bucket_of_;  // by parameter
  Buffer weights_;
  Buffer gradients_;
  Buffer whole_weights_;    // of parts, as they are used
  Buffer whole_gradients_;  // until they are reduced
};

}  // namespace tessera::engine
