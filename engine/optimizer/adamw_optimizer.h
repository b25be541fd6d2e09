// AdamW over the ranges of the flat buffer that this rank owns: all of it, or with the distributed
// optimizer its part of each bucket.
// Loshchilov & Hutter 2019, arXiv:1711.05101; Rajbhandari et al. 2020, arXiv:1910.02054 (ZeRO-1).
#pragma once

#include <vector>

#include "cost_model/spec/training_spec.h"
#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

class AdamWOptimizer {
 public:
  AdamWOptimizer(const LayerContext& context, const ParameterStore& store);

  // Adds to *sum, in device memory, the squares of the gradients that this rank counts in the
  // global norm: each parameter of the model once over all ranks, whatever replicas and tied copies
  // there are.
  void AddSquaredNorm(double* sum) const;

  // One update with gradients times grad_scale. `step` counts from 1.
  void Step(const spec::OptimizerSpec& options, double lr, double grad_scale, int64_t step) const;

  // Over the store's owned ranges, one after the other, fp32.
  kernels::Array m() const { return m_.array(); }
  kernels::Array v() const { return v_.array(); }
  // Master weights of mixed precision, absent in fp32.
  kernels::Array master() const { return master_ ? master_.array() : kernels::Array(); }

 private:
  // Owned elements that are treated alike.
  struct Segment {
    int64_t offset = 0;  // into the flat buffer
    int64_t num_elements = 0;
    int64_t state_offset = 0;  // into m, v and master weights
    bool weight_decay = false;
    bool counts_in_norm = false;
  };
  void AppendSegments(const spec::OwnedRange& range);

  const LayerContext& context_;
  const ParameterStore& store_;
  std::vector<Segment> segments_;
  Buffer m_;
  Buffer v_;
  Buffer master_;
};

}  // namespace tessera::engine
