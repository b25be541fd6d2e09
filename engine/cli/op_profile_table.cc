#include "engine/cli/op_profile_table.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "engine/cli/text_rows.h"

namespace tessera::engine {
namespace {

constexpr size_t kMostRows = 16;

// "104.3 GFLOP/s", "6.8 GB/s", "-"
std::string RateText(const OpRates& rates) {
  const bool computes = rates.flops_per_s > 0;
  const double rate = computes ? rates.flops_per_s : rates.bytes_per_s;
  if (rate <= 0) return "-";
  const char* const unit = computes ? "FLOP/s" : "B/s";
  return rate >= 1e12 ? Format("%.1f T%s", rate * 1e-12, unit)
                      : Format("%.2f G%s", rate * 1e-9, unit);
}

void PrintGroups(const OpProfile& profile, const spec::Plan& plan, std::ostream& out) {
  const std::array<double, kNumOpGroups> seconds = SecondsByGroup(profile);
  const double in_ops_s = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const auto steps = static_cast<double>(profile.num_steps);
  const auto row = [&](std::string_view name, double measured_s, const std::string& predicted) {
    out << Format("  %-20s %10.3f ms %5.1f %% %14s\n", std::string(name).c_str(),
                  measured_s / steps * kMsPerSecond, 100 * measured_s / profile.steps_s,
                  predicted.c_str());
  };
  out << Format("  %-20s %13s %7s %14s\n", "", "a step", "share", "predicted");
  for (size_t i = 0; i < kNumOpGroups; ++i) {
    const auto group = static_cast<OpGroup>(i);
    const double predicted_s = plan.prediction ? PredictedSeconds(group, plan.prediction->time) : 0;
    if (seconds[i] == 0 && predicted_s == 0) continue;
    row(ToString(group), seconds[i],
        plan.prediction ? Format("%.3f ms", predicted_s * kMsPerSecond) : "-");
  }
  row("between operations", profile.steps_s - in_ops_s, "-");
}

}  // namespace

void PrintOpProfile(const OpProfile& profile, const spec::Plan& plan, std::ostream& out) {
  const auto steps = static_cast<double>(profile.num_steps);
  out << Format("\nOperations of rank %d (pp %d, dp %d, cp %d, tp %d), %ld steps of %.3f ms:\n",
                profile.rank, profile.coord.pipeline, profile.coord.data, profile.coord.context,
                profile.coord.tensor, profile.num_steps, profile.steps_s / steps * kMsPerSecond);
  PrintGroups(profile, plan, out);
  out << Format("\n  %-44s %8s %13s %7s %15s %8s\n", "kind and shape", "a step", "time", "share",
                "rate", "of peak");
  for (size_t i = 0; i < std::min(kMostRows, profile.ops.size()); ++i) {
    const OpUse& use = profile.ops[i];
    const OpRates rates = RatesOf(use, plan);
    const std::string peak =
        rates.share_of_peak > 0 ? Format("%.1f %%", 100 * rates.share_of_peak) : "-";
    out << Format("  %-44s %8.1f %10.3f ms %5.1f %% %15s %8s\n", base::ToString(use.record).c_str(),
                  static_cast<double>(use.count) / steps, use.seconds / steps * kMsPerSecond,
                  100 * use.seconds / profile.steps_s, RateText(rates).c_str(), peak.c_str());
  }
  if (profile.ops.size() > kMostRows) {
    out << Format("  and %zu more, in the profile's file\n", profile.ops.size() - kMostRows);
  }
}

}  // namespace tessera::engine
