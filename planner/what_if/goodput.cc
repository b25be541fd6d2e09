#include "planner/what_if/goodput.h"

#include <cmath>
#include <limits>

#include "cost_model/base/check.h"

namespace tessera::planner {

double YoungIntervalS(double checkpoint_s, double mtbf_s) {
  return std::sqrt(2 * checkpoint_s * mtbf_s);
}

double DalyIntervalS(double checkpoint_s, double mtbf_s) {
  if (std::isinf(mtbf_s)) return std::numeric_limits<double>::infinity();
  if (checkpoint_s >= 2 * mtbf_s) return mtbf_s;
  const double ratio = checkpoint_s / (2 * mtbf_s);
  return YoungIntervalS(checkpoint_s, mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) -
         checkpoint_s;
}

Goodput GoodputOf(const FailureTerms& terms, double interval_s) {
  TESSERA_CHECK(terms.mtbf_s > 0 && terms.checkpoint_s >= 0 && terms.restart_s >= 0,
                "no failure terms: ", terms.mtbf_s, " ", terms.checkpoint_s, " ", terms.restart_s);
  Goodput goodput{.interval_s = interval_s};
  if (std::isinf(terms.mtbf_s)) {
    // Nothing to recover from; no checkpoint either where the interval is unbounded.
    if (std::isinf(interval_s)) return goodput;
    goodput.useful_share = interval_s / (interval_s + terms.checkpoint_s);
    goodput.checkpoint_share = 1 - goodput.useful_share;
    return goodput;
  }
  const double alive_share = std::exp(-terms.restart_s / terms.mtbf_s);
  const double segment = (interval_s + terms.checkpoint_s) / terms.mtbf_s;
  // Work and checkpoints that last; x / (e^x - 1) tends to 1.
  const double kept_share = alive_share * (segment > 0 ? segment / std::expm1(segment) : 1);
  const double work = interval_s + terms.checkpoint_s;
  goodput.useful_share = work > 0 ? kept_share * interval_s / work : kept_share;
  goodput.checkpoint_share = kept_share - goodput.useful_share;
  goodput.restart_share = 1 - alive_share;
  goodput.rework_share = alive_share - kept_share;
  return goodput;
}

Goodput BestGoodput(const FailureTerms& terms) {
  return GoodputOf(terms, DalyIntervalS(terms.checkpoint_s, terms.mtbf_s));
}

}  // namespace tessera::planner
