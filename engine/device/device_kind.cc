#include "cost_model/base/error.h"
#include "engine/device/rank_device.h"

namespace tessera::engine {

std::string_view ToString(DeviceKind device) {
  switch (device) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
  }
  return "?";
}

std::string_view ToString(CommKind comm) {
  switch (comm) {
    case CommKind::kThread:
      return "thread";
    case CommKind::kGloo:
      return "gloo";
    case CommKind::kNccl:
      return "nccl";
  }
  return "?";
}

DeviceKind DeviceKindFromString(const std::string& text) {
  if (text == "cpu") return DeviceKind::kCpu;
  if (text == "cuda") return DeviceKind::kCuda;
  throw base::ConfigError("device", "", "\"" + text + "\"", "cpu or cuda");
}

CommKind CommKindFromString(const std::string& text) {
  if (text == "thread") return CommKind::kThread;
  if (text == "gloo") return CommKind::kGloo;
  if (text == "nccl") return CommKind::kNccl;
  throw base::ConfigError("comm", "", "\"" + text + "\"", "thread, gloo or nccl");
}

void CheckProcesses(const DeviceOptions& options, const ProcessRank& process) {
  if (options.comm == CommKind::kGloo) return;
  if (options.device == DeviceKind::kCuda && options.comm == CommKind::kNccl) return;
  throw base::ConfigError(
      process.launcher, "", base::Concat("rank ", process.rank, " of ", process.num_ranks),
      "one process, ranks with --comm gloo, or ranks with --device cuda --comm nccl");
}

}  // namespace tessera::engine
