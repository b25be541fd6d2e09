#include "planner/warnings.h"

namespace tessera::planner {

std::vector<spec::StepWarning> WarningsOf(const Request& request, const RankedLayout& layout) {
  const cost_model::Job& job = request.job;
  return spec::FindStepWarnings(job.model, job.cluster, job.training, layout.parallel,
                                layout.report);
}

}  // namespace tessera::planner
