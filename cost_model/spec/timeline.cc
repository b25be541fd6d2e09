#include "cost_model/spec/timeline.h"

#include "cost_model/base/check.h"

namespace tessera::spec {

std::string_view ToString(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::kReduceGradients:
      return "reduce gradients";
    case PhaseKind::kWait:
      return "wait for all ranks";
    case PhaseKind::kOptimizer:
      return "optimizer";
    case PhaseKind::kGatherParameters:
      return "gather parameters";
    case PhaseKind::kOther:
      return "other";
  }
  base::FailCheck(__FILE__, __LINE__, "known phase", static_cast<int>(kind));
}

}  // namespace tessera::spec
