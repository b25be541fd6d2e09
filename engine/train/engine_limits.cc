#include "engine/train/engine_limits.h"

#include <vector>

#include "cost_model/base/error.h"
#include "cost_model/spec/flat_layout.h"

namespace tessera::engine {
namespace {

// Parts of the model and of the batch's arithmetic that no layer here computes.
void AddModelLimits(const spec::Plan& plan, std::vector<std::string>& reasons) {
  const spec::ModelSpec& model = plan.model;
  if (model.moe && model.mlp_bias) {
    reasons.push_back("biases of experts are planned but not executed yet");
  }
  if (model.moe && model.moe->shared_expert_ffn_hidden_size > 0) {
    const bool is_gated = model.activation == spec::ActivationKind::kSwiGlu;
    if (model.moe->shared_expert_gate && !is_gated) {
      reasons.push_back("gates of shared experts are planned but not executed yet without SwiGLU");
    }
    if (plan.parallel.schedule == spec::ScheduleKind::kZeroBubbleH1) {
      reasons.push_back(
          "the zb-h1 schedule of shared experts is planned but not executed yet, use 1f1b");
    }
  }
  if (model.qk_norm) {
    reasons.push_back("norms of queries and keys are planned but not executed yet");
  }
  if (model.mla) {
    reasons.push_back("multi-head latent attention is planned but not executed yet");
  }
  if (model.sliding_window) {
    reasons.push_back("sliding-window attention is planned but not executed yet");
  }
  if (model.num_multi_token_layers > 0) {
    reasons.push_back("multi-token prediction is planned but not executed yet");
  }
  const spec::Precision precision = plan.training.precision;
  if (precision == spec::Precision::kFp8 || precision == spec::Precision::kFp4) {
    reasons.push_back(base::Concat("precision ", spec::ToString(precision),
                                   " is planned but not executed yet, use --precision bf16"));
  }
}

void AddLayoutLimits(const spec::ParallelSpec& parallel, std::vector<std::string>& reasons) {
  const auto refuse = [&](bool is_wanted, const char* what) {
    if (is_wanted) reasons.push_back(base::Concat(what, " is planned but not executed yet"));
  };
  refuse(parallel.schedule == spec::ScheduleKind::kZeroBubbleH1 &&
             spec::ReducesEachMicrobatch(parallel),
         "zb-h1 with sharded gradients, which leave after each pass,");
  refuse(parallel.gradient_reduce_type != base::DType::kFloat32,
         "reduction of gradients in a 16-bit type (gradient_reduce_type)");
}

std::vector<std::string> Unsupported(const spec::Plan& plan) {
  std::vector<std::string> reasons;
  AddLayoutLimits(plan.parallel, reasons);
  AddModelLimits(plan, reasons);
  return reasons;
}

}  // namespace

void CheckExecutable(const spec::Plan& plan) {
  std::string message;
  for (const spec::Violation& violation :
       spec::FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices)) {
    message += (message.empty() ? "" : "; ") + violation.message;
  }
  for (const std::string& reason : Unsupported(plan)) {
    message += (message.empty() ? "" : "; ") + reason;
  }
  if (!message.empty()) throw base::InfeasibleError("the plan cannot be run: " + message);
}

}  // namespace tessera::engine
