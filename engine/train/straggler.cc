#include "engine/train/straggler.h"

#include <algorithm>
#include <cstdio>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

}  // namespace

std::optional<Straggler> FindStraggler(const std::vector<RankCompute>& ranks) {
  std::optional<Straggler> slowest;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<double> others_s;
    for (size_t other = 0; other < ranks.size(); ++other) {
      const bool is_peer = ranks[other].pipeline == ranks[rank].pipeline;
      if (other != rank && is_peer) others_s.push_back(ranks[other].compute_s);
    }
    if (others_s.empty()) continue;
    const Straggler found{.rank = static_cast<int>(rank),
                          .compute_s = ranks[rank].compute_s,
                          .median_s = Median(others_s)};
    if (found.median_s <= 0) continue;
    if (!slowest || found.ratio() > slowest->ratio()) slowest = found;
  }
  return slowest;
}

std::optional<spec::StepWarning> StragglerWarning(const Straggler& straggler,
                                                  const spec::RankCoord& coord,
                                                  double step_time_s) {
  if (straggler.ratio() < spec::kStragglerRatio) return std::nullopt;
  const double excess_s = straggler.compute_s - straggler.median_s;
  if (excess_s < spec::kStragglerStepShare * step_time_s) return std::nullopt;
  constexpr double kMsPerSecond = 1e3;
  return spec::StepWarning{
      .kind = spec::WarningKind::kStraggler,
      .what = base::Concat("rank ", straggler.rank, " (pp ", coord.pipeline, ", dp ", coord.data,
                           ", cp ", coord.context, ", tp ", coord.tensor, ") computes ",
                           Format("%.2f", straggler.compute_s * kMsPerSecond), " ms a step, ",
                           Format("%.2f", straggler.ratio()),
                           " times the median of the other ranks of its stage (",
                           Format("%.2f", straggler.median_s * kMsPerSecond), " ms), which is ",
                           Format("%.0f", 100 * excess_s / step_time_s), " % of the step"),
      .remedy = "look at that device's clock, temperature and other load, or leave it out",
      .share = straggler.ratio()};
}

}  // namespace tessera::engine
