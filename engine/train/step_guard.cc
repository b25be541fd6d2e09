#include "engine/train/step_guard.h"

#include <cmath>
#include <numeric>

#include "cost_model/base/error.h"

namespace tessera::engine {

NanAction NanActionFromString(const std::string& text) {
  if (text == "stop") return NanAction::kStop;
  if (text == "skip") return NanAction::kSkip;
  throw base::ConfigError("--on-nan", "", text, "stop or skip");
}

SpikeAction SpikeActionFromString(const std::string& text) {
  if (text == "ignore") return SpikeAction::kIgnore;
  if (text == "skip") return SpikeAction::kSkip;
  if (text == "stop") return SpikeAction::kStop;
  throw base::ConfigError("--on-spike", "", text, "ignore, skip or stop");
}

double StepGuard::MeanLoss() const {
  const std::vector<double>& losses = recent_.losses;
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

std::string StepGuard::SpikeIn(double loss, double grad_norm) const {
  if (options_.spike_grad_norm > 0 && grad_norm > options_.spike_grad_norm) {
    return base::Concat("the gradient norm of ", grad_norm, " is above ", options_.spike_grad_norm);
  }
  if (options_.spike_loss_factor <= 0 || recent_.losses.size() < kFewestLosses) return "";
  const double mean = MeanLoss();
  if (loss <= options_.spike_loss_factor * mean) return "";
  return base::Concat("the loss of ", loss, " is above ", options_.spike_loss_factor, " x ", mean,
                      ", the mean of the last ", recent_.losses.size(), " steps");
}

Judgement StepGuard::Judge(double loss, double grad_norm) {
  Judgement judgement;
  judgement.is_finite = std::isfinite(loss) && std::isfinite(grad_norm);
  if (!judgement.is_finite) {
    judgement.reason = base::Concat("loss ", loss, ", gradient norm ", grad_norm);
    judgement.verdict = options_.on_nan == NanAction::kSkip ? Verdict::kSkip : Verdict::kStop;
  } else if (options_.on_spike != SpikeAction::kIgnore) {
    judgement.reason = SpikeIn(loss, grad_norm);
    if (!judgement.reason.empty()) {
      judgement.verdict = options_.on_spike == SpikeAction::kSkip ? Verdict::kSkip : Verdict::kStop;
    }
  }
  if (judgement.verdict == Verdict::kApply) {
    recent_.num_skipped_in_a_row = 0;
    recent_.losses.push_back(loss);
    if (recent_.losses.size() > kNumRecentLosses) recent_.losses.erase(recent_.losses.begin());
  } else if (judgement.verdict == Verdict::kSkip &&
             ++recent_.num_skipped_in_a_row > options_.most_skipped_steps) {
    judgement.verdict = Verdict::kStop;
    judgement.reason +=
        base::Concat(", after ", options_.most_skipped_steps, " steps in a row that were skipped");
  }
  return judgement;
}

}  // namespace tessera::engine
