// AdamW over the ranges of the flat buffer that this rank owns: all of it, or with the distributed
// optimizer its part of each bucket. On the device, or on the host: then gradients come down,
// updated weights go up.
// Loshchilov & Hutter 2019, arXiv:1711.05101; Rajbhandari et al. 2020, arXiv:1910.02054 (ZeRO-1).
#pragma once

#include <memory>
#include <vector>

#include "cost_model/spec/training_spec.h"
#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"
#include "engine/optimizer/optimizer_state.h"

namespace tessera::engine {

class AdamWOptimizer {
 public:
  struct Options {
    int host_threads = 1;          // that run an update on the host
    bool decay_embeddings = true;  // as other matrices
  };
  AdamWOptimizer(const LayerContext& context, const ParameterStore& store, const Options& options);

  // Adds to *sum, in device memory, the squares of the gradients that this rank counts in the
  // global norm: each parameter of the model once over all ranks, whatever replicas and tied copies
  // there are.
  void AddSquaredNorm(double* sum) const;

  // What changes from update to update.
  struct Update {
    double lr = 0;
    double weight_decay = 0;
    double grad_scale = 1;  // of the gradients
    int64_t step = 1;       // from 1
  };
  void Step(const spec::OptimizerSpec& optimizer, const Update& update) const;

  // Over the store's owned ranges, one after the other.
  const OptimizerState& state() const { return state_; }

 private:
  // Owned elements that are treated alike.
  struct Segment {
    kernels::Array weight;
    kernels::Array gradient;
    int64_t end = 0;  // in the flat buffer
    int64_t num_elements = 0;
    int64_t state_offset = 0;  // into m, v and master weights
    bool weight_decay = false;
    bool counts_in_norm = false;
  };
  void AppendSegments(const spec::OwnedRange& range);
  void StepOnHost(const Segment& segment, kernels::AdamWArgs args) const;

  const LayerContext& context_;
  const ParameterStore& store_;
  const Options options_;
  std::vector<Segment> segments_;
  OptimizerState state_;
  std::unique_ptr<kernels::Backend> host_;  // where the state is there
};

}  // namespace tessera::engine
