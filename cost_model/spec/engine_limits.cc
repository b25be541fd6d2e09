#include "cost_model/spec/engine_limits.h"

#include <string>

#include "cost_model/base/check.h"
#include "cost_model/spec/flat_layout.h"

namespace tessera::spec {
namespace {

void Refuse(const std::string& what, std::vector<Violation>& limits) {
  limits.push_back(
      {.constraint = "not executed", .message = what, .needed = 1, .available = 0, .unit = ""});
}

void AddExpertLimits(const ModelSpec& model, const ParallelSpec& parallel,
                     std::vector<Violation>& limits) {
  if (model.mlp_bias) Refuse("biases of experts are planned but not executed yet", limits);
  if (model.moe->shared_expert_ffn_hidden_size == 0) return;
  if (model.moe->shared_expert_gate && model.activation != ActivationKind::kSwiGlu) {
    Refuse("gates of shared experts are planned but not executed yet without SwiGLU", limits);
  }
  if (parallel.schedule == ScheduleKind::kZeroBubbleH1) {
    Refuse("the zb-h1 schedule of shared experts is planned but not executed yet, use 1f1b",
           limits);
  }
}

void AddModelLimits(const ModelSpec& model, std::vector<Violation>& limits) {
  if (model.qk_norm) {
    Refuse("norms of queries and keys are planned but not executed yet", limits);
  }
  if (model.mla) {
    Refuse("multi-head latent attention is planned but not executed yet", limits);
  }
  if (model.sliding_window) {
    Refuse("sliding-window attention is planned but not executed yet", limits);
  }
  if (model.num_multi_token_layers > 0) {
    Refuse("multi-token prediction is planned but not executed yet", limits);
  }
}

}  // namespace

std::vector<Violation> FindEngineLimits(const ModelSpec& model, const TrainingSpec& training,
                                        const ParallelSpec& parallel) {
  std::vector<Violation> limits;
  if (parallel.schedule == ScheduleKind::kZeroBubbleH1 && ReducesEachMicrobatch(parallel)) {
    Refuse(
        "zb-h1 with sharded gradients, which leave after each pass, is planned but not executed "
        "yet",
        limits);
  }
  if (parallel.gradient_reduce_type != base::DType::kFloat32) {
    Refuse(
        "reduction of gradients in a 16-bit type (gradient_reduce_type) is planned but not "
        "executed yet",
        limits);
  }
  if (model.moe) AddExpertLimits(model, parallel, limits);
  AddModelLimits(model, limits);
  const Precision precision = training.precision;
  if (precision == Precision::kFp8 || precision == Precision::kFp4) {
    Refuse(base::Concat("precision ", ToString(precision),
                        " is planned but not executed yet, use --precision bf16"),
           limits);
  }
  return limits;
}

}  // namespace tessera::spec
