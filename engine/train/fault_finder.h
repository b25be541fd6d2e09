// Which tensor of which rank is the first that holds something that is no finite number.
#pragma once

#include <functional>
#include <string>

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"
#include "engine/pipeline/pipeline_runner.h"

namespace tessera::engine {

class FaultFinder {
 public:
  // `scratch`: one double of device memory that nobody else needs meanwhile. All must outlive it.
  FaultFinder(const LayerContext& context, const ParameterStore& store, Communicator& host_world,
              double* scratch)
      : context_(context), store_(store), host_world_(host_world), scratch_(scratch) {}

  // Looks at the parameters of each rank, then at what each part makes of the micro-batches as
  // `run_forward` runs the step's forward passes again, telling the observer, then at the gradients
  // of each rank, those of the layers behind first. Of several tensors the first in this order, of
  // several ranks the lowest, is told in a sentence: "the output of layer 3 in micro-batch 0 on
  // rank 5 (pp 1 dp 0 cp 0 tp 1) is not finite"; "" where everything is finite now. Collective.
  std::string Find(
      const std::function<void(const ForwardOnlyRunner::Observer& observer)>& run_forward);

 private:
  // A tensor that is not finite; the least of all ranks is the first.
  struct Fault {
    int64_t order = 0;  // 0: none
    int rank = 0;
    spec::RankCoord coord;
    char tensor[128] = {};
  };

  bool IsFinite(kernels::ConstArray values, int64_t num_elements) const;
  void Note(int64_t order, const std::string& tensor);
  // Calls `look` for each parameter that the rank holds, or the piece that it owns.
  template <typename Look>
  void ForEachPiece(bool owned_alone, const Look& look) const;
  void LookAtWeights();
  void LookAtGradients();
  // The first fault of all ranks as a sentence.
  std::string FirstOfAll() const;

  const LayerContext& context_;
  const ParameterStore& store_;
  Communicator& host_world_;
  double* scratch_;
  Fault fault_;
};

}  // namespace tessera::engine
