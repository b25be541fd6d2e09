// What a whole run takes, from the price of its step.
#pragma once

#include <optional>

#include "planner/search.h"
#include "planner/what_if/goodput.h"
#include "planner/what_if/run_terms.h"

namespace tessera::planner {

inline constexpr double kSecondsPerHour = 3600;
inline constexpr double kSecondsPerDay = 24 * kSecondsPerHour;

struct RunFigures {
  double mtbf_s = 0;  // of the job; infinite: no failures
  double checkpoint_s = 0;
  Goodput goodput;
  double expected_failures = 0;
  double effective_tokens_per_s = 0;  // under failures
  double wall_s = 0;
  double Days() const;
  double device_hours = 0;
  std::optional<double> cost_usd;    // absent: no price is known
  std::optional<double> energy_kwh;  // absent: the devices' power is unknown
};

// US dollars for an hour of a device; absent: neither the terms nor the cluster file know it.
std::optional<double> PriceOf(const spec::ClusterSpec& cluster, const RunTerms& terms);

// Bytes of one checkpoint: weights as they are trained, fp32 copies where they are 16 bits wide,
// and AdamW's two moments in fp32.
double CheckpointBytes(const cost_model::Job& job);

// Failures of all devices add up, so the job's MTBF is a device's over their number.
// REQUIRES: terms.tokens.
RunFigures EstimateRun(const cost_model::Job& job, const spec::StepReport& report,
                       const RunTerms& terms);

}  // namespace tessera::planner
