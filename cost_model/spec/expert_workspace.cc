#include "cost_model/spec/expert_workspace.h"

#include <algorithm>
#include <vector>

namespace tessera::spec {
namespace {

constexpr int64_t kIndexBytes = 4;  // int32
constexpr int64_t kValueBytes = 4;  // fp32: a router weight, its gradient

// A buffer of rows on their way, and the indices that the operation which writes it reads.
struct Step {
  int64_t row_bytes = 0;
  int64_t index_bytes = 0;
};

class Passes {
 public:
  Passes(const ModelSpec& model, const TrainingSpec& training, const ParallelSpec& parallel,
         const LocalShape& shape)
      : moe_(*model.moe),
        shape_(shape),
        expert_size_(parallel.expert_parallel_size),
        tensor_size_(ExpertTensorSize(parallel)),
        puts_off_(parallel.schedule == ScheduleKind::kZeroBubbleH1),
        gathers_ahead_(parallel.overlap_tp_comm),
        element_bytes_(base::SizeBytes(TypesOf(training.precision).activation)),
        is_gated_(model.activation == ActivationKind::kSwiGlu),
        first_width_(is_gated_ ? 2 * shape.expert_ffn : shape.expert_ffn) {}

  int64_t Forward() const {
    std::vector<Step> dispatch = Dispatch();
    dispatch.back().row_bytes = 0;  // kept for the backward pass
    return std::max({CountBytes(), MostOf(dispatch), MostOf(Combination()), SharedForward()});
  }

  int64_t Backward() const {
    const int64_t values = shape_.expert_rows * kValueBytes;
    const int64_t hidden = RowBytes(shape_.expert_rows, shape_.hidden);
    const int64_t activation = RowBytes(shape_.expert_rows, shape_.expert_ffn);
    const int64_t tokens = RowBytes(shape_.local_tokens, shape_.hidden);
    // The gradient that dropout leaves stays to the end.
    const int64_t branch = shape_.drops_hidden ? tokens : 0;
    // With a shared expert its gradient of the tokens waits for the others.
    const int64_t held = Choices() * kValueBytes + tokens + (shape_.shared_ffn > 0 ? tokens : 0);
    const int64_t rows_left = puts_off_ ? hidden : 0;  // the gradient of the experts' output
    const int64_t first_left = puts_off_ ? First() : 0;
    const int64_t routed = held + std::max({MostOf(Dispatch()), values + hidden + activation,
                                            values + rows_left + activation + First(),
                                            values + rows_left + First() + hidden,
                                            values + rows_left + first_left + MostOf(Combination()),
                                            rows_left + first_left + tokens + Logits()});
    return branch + std::max(routed, SharedBackward());
  }

  int64_t Left() const {
    return puts_off_ ? RowBytes(shape_.expert_rows, shape_.hidden) + First() + Logits() : 0;
  }

 private:
  int64_t RowBytes(int64_t rows, int64_t width) const { return rows * width * element_bytes_; }
  int64_t First() const { return RowBytes(shape_.expert_rows, first_width_); }
  int64_t Logits() const { return RowBytes(shape_.local_tokens, moe_.num_experts); }
  int64_t Choices() const { return shape_.local_tokens * moe_.experts_per_token; }

  // All tokens, where a shared expert gathers them.
  int64_t Gathered() const {
    return shape_.sequence_parallel ? RowBytes(shape_.tokens, shape_.hidden) : 0;
  }

  int64_t SharedForward() const {
    if (shape_.shared_ffn == 0) return 0;
    const int64_t choice = moe_.shared_expert_gate ? shape_.tokens * kIndexBytes : 0;
    return Gathered() + std::max(choice, RowBytes(shape_.local_tokens, shape_.hidden));
  }

  int64_t SharedBackward() const {
    if (shape_.shared_ffn == 0) return 0;
    const int64_t tokens = shape_.tokens;
    const int64_t activation = RowBytes(tokens, shape_.shared_ffn);
    const int64_t first = is_gated_ ? 2 * activation : activation;
    const int64_t dactivation = is_gated_ ? activation : 0;  // else it is the first product's
    const int64_t weight = moe_.shared_expert_gate ? tokens * kValueBytes : 0;
    const int64_t logits = moe_.shared_expert_gate ? RowBytes(tokens, 2) : 0;
    const int64_t choice = moe_.shared_expert_gate ? tokens * kIndexBytes : 0;
    return std::max({Gathered() + first + weight + std::max(dactivation, choice + logits),
                     first + logits + RowBytes(shape_.local_tokens, shape_.hidden) +
                         (gathers_ahead_ ? 2 : 1) * Gathered()});
  }

  std::vector<Step> Dispatch() const {
    const int64_t sent = RowBytes(shape_.routed_rows, shape_.hidden);
    const int64_t taken = RowBytes(shape_.expert_rows, shape_.hidden);
    std::vector<Step> steps = {{sent, shape_.routed_rows * kIndexBytes}};
    if (expert_size_ > 1) steps.push_back({sent});
    if (tensor_size_ > 1) steps.push_back({taken});
    if (shape_.sorts_by_expert) steps.push_back({taken, shape_.expert_rows * kIndexBytes});
    return steps;
  }

  // Starts with what the experts give; the sums of the tokens have a place already.
  std::vector<Step> Combination() const {
    const int64_t sent = RowBytes(shape_.routed_rows, shape_.hidden);
    const int64_t taken = RowBytes(shape_.expert_rows, shape_.hidden);
    std::vector<Step> steps = {{taken}};
    if (shape_.sorts_by_expert) steps.push_back({taken, shape_.expert_rows * kIndexBytes});
    if (tensor_size_ > 1) steps.push_back({sent});
    if (expert_size_ > 1) steps.push_back({sent});
    steps.push_back({0, Choices() * kIndexBytes});
    return steps;
  }

  // Rows to each expert, of this rank and of those that it exchanges them with.
  int64_t CountBytes() const {
    if (shape_.expert_capacity > 0) return 0;
    const int64_t own = moe_.num_experts * kIndexBytes;
    const int64_t of_expert_ranks = own * expert_size_;
    const int64_t first = expert_size_ > 1 ? own + of_expert_ranks : 0;
    return tensor_size_ > 1 ? std::max(first, of_expert_ranks * (1 + tensor_size_)) : first;
  }

  static int64_t MostOf(const std::vector<Step>& steps) {
    int64_t most = 0;
    int64_t before = 0;
    for (const Step& step : steps) {
      most = std::max(most, before + step.row_bytes + step.index_bytes);
      before = step.row_bytes;
    }
    return most;
  }

  const MoeSpec& moe_;
  const LocalShape& shape_;
  int64_t expert_size_;
  int64_t tensor_size_;
  bool puts_off_;
  bool gathers_ahead_;
  int64_t element_bytes_;
  bool is_gated_;
  int64_t first_width_;
};

}  // namespace

ExpertWorkspace ExpertWorkspaceOf(const ModelSpec& model, const TrainingSpec& training,
                                  const ParallelSpec& parallel, const LocalShape& shape) {
  const Passes passes(model, training, parallel, shape);
  return {.forward_bytes = passes.Forward(),
          .backward_bytes = passes.Backward(),
          .left_bytes = passes.Left()};
}

}  // namespace tessera::spec
