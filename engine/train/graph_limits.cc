#include "engine/train/graph_limits.h"

#include <string>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

[[noreturn]] void Refuse(const std::string& found, const std::string& expected) {
  throw base::ConfigError("--cuda-graph", "", found, expected);
}

}  // namespace

void CheckGraphs(const spec::Plan& plan, DeviceKind device, CommKind comm) {
  if (device != DeviceKind::kCuda) {
    Refuse(base::Concat("--device ", ToString(device)), "--device cuda: CPUs have no graphs");
  }
  if (comm != CommKind::kNccl && plan.num_devices > 1) {
    Refuse(base::Concat("--comm ", ToString(comm), " with ", plan.num_devices, " devices"),
           "--comm nccl: what goes through host memory makes the host wait in every pass");
  }
  if (plan.model.moe) {
    Refuse("a model with experts",
           "a dense model: how many tokens an expert gets is known to the host in the middle of a "
           "pass, and is another number in the next");
  }
  const spec::DropoutSpec& dropout = plan.training.dropout;
  if (dropout.hidden > 0 || dropout.attention > 0 || dropout.embedding > 0) {
    Refuse(
        "dropout",
        "hidden_dropout, attention_dropout and embedding_dropout of 0: masks depend on the step, "
        "whose number a graph cannot change");
  }
  if (plan.training.eod_mask_loss) {
    Refuse("eod_mask_loss",
           "a loss over all tokens: the number of those that count is another in every step, and "
           "part of the graph");
  }
  if (plan.parallel.overlap_param_gather) {
    Refuse("overlap_param_gather",
           "parameters that are gathered before the passes: a graph does not wait for what began "
           "before it");
  }
}

}  // namespace tessera::engine
