// What a training computes, put together from the parts that its ranks hold: by parameter and
// global index, whatever the layout.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/checkpoint/tensor_part.h"
#include "engine/train/rank_trainer.h"

namespace tessera::engine {

struct GlobalTensor {
  struct Holder {
    int rank = 0;
    TensorPart part;
  };

  std::vector<int64_t> shape;
  std::vector<float> values;            // row-major, without padding
  std::vector<bool> is_held;            // whether some rank holds the element
  int64_t num_holders_that_differ = 0;  // parts of an element that are not the first holder's bits
  std::vector<Holder> holders;
};
using GlobalTensors = std::map<std::string, GlobalTensor>;

// The ranks that hold an element, ascending.
std::vector<int> HoldersOfElement(const GlobalTensor& tensor, int64_t element);

struct TrainedModel {
  std::vector<double> losses;      // by step
  std::vector<double> grad_norms;  // before clipping
  // Of the first step that was not skipped, before clipping.
  GlobalTensors first_gradients;
  // After the last step. In mixed precision the master weights.
  GlobalTensors weights, first_moments, second_moments;
};

// Records a training whose ranks are threads of this process.
class ModelRecorder {
 public:
  // After each step, on each rank's own thread, with the device that it trains on.
  // `is_last`: nothing changes the weights any more.
  void Record(RankTrainer& trainer, kernels::Backend& backend, int rank, const StepResult& result,
              bool is_last);

  // Once all ranks are done.
  const TrainedModel& trained() const { return trained_; }

 private:
  void AddGradients(RankTrainer& trainer, kernels::Backend& backend, int rank,
                    const StepResult& result);
  void AddState(const TrainState& state, base::DType weight_type, int rank);

  std::mutex mutex_;
  int64_t first_good_step_ = 0;  // 0: none yet
  TrainedModel trained_;
};

}  // namespace tessera::engine
