#include "planner/what_if/run_text.h"

#include <cmath>

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {

using base::Concat;

std::string DaysText(double days) {
  constexpr double kHoursPerDay = 24;
  constexpr double kDaysPerYear = 365;
  if (!std::isfinite(days)) return "no end";
  if (days < 1) return Concat(FormatFixed(days * kHoursPerDay, 1), " hours");
  if (days >= 2 * kDaysPerYear) return Concat(FormatFixed(days / kDaysPerYear, 1), " years");
  return Concat(FormatFixed(days, 1), " days");
}

std::string LargeCountText(double count) {
  constexpr double kThousand = 1e3;
  if (!std::isfinite(count)) return "no end";
  if (count >= 1e15) return Concat(FormatFixed(count / 1e12, 0), " T");
  if (count >= 1e12) return Concat(FormatFixed(count / 1e12, 2), " T");
  if (count >= 1e9) return Concat(FormatFixed(count / 1e9, 2), " B");
  if (count >= 1e6) return Concat(FormatFixed(count / 1e6, 2), " M");
  if (count >= kThousand) return FormatCount(std::llround(count));
  return FormatFixed(count, 1);
}

std::string DollarsText(double dollars) {
  if (dollars < 0) return Concat("-", DollarsText(-dollars));
  if (dollars < 1) return Concat("$", FormatFixed(dollars, 2));
  return Concat("$", LargeCountText(dollars));
}

std::string PlaceText(const WhatIfPoint& point) {
  const cost_model::Job& job = point.job();
  const std::string& variant = point.asked.variant;
  return Concat(FormatPlural(job.num_devices, "device"), " of ", job.cluster.name,
                variant.empty() ? "" : Concat(" (", variant, ")"), ", global batch ",
                FormatCount(job.training.global_batch_size));
}

std::string RunText(const WhatIfPoint& point) {
  TESSERA_CHECK(point.run, "a point without a run");
  std::string text = Concat(DaysText(point.run->Days()), ", ",
                            LargeCountText(point.run->device_hours), " device-hours");
  if (point.run->cost_usd) text += Concat(", ", DollarsText(*point.run->cost_usd));
  return text;
}

}  // namespace tessera::planner
