#include "engine/train/op_profile_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tessera::engine {
namespace {

using Json = nlohmann::ordered_json;

Json RateOrNull(double rate) { return rate > 0 ? Json(rate) : Json(); }

Json DimsJson(const base::OpRecord& record) {
  size_t num_dims = record.dims.size();
  while (num_dims > 0 && record.dims[num_dims - 1] == 0) --num_dims;
  Json dims = Json::array();
  for (size_t i = 0; i < num_dims; ++i) dims.push_back(record.dims[i]);
  return dims;
}

Json GroupsJson(const OpProfile& profile, const spec::Plan& plan) {
  const std::array<double, kNumOpGroups> seconds = SecondsByGroup(profile);
  const double in_ops_s = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const auto steps = static_cast<double>(profile.num_steps);
  Json groups = Json::array();
  for (size_t i = 0; i < kNumOpGroups; ++i) {
    const auto group = static_cast<OpGroup>(i);
    const Json predicted =
        plan.prediction ? Json(PredictedSeconds(group, plan.prediction->time)) : Json();
    groups.push_back({{"group", ToString(group)},
                      {"seconds_per_step", seconds[i] / steps},
                      {"predicted_seconds_per_step", predicted}});
  }
  groups.push_back({{"group", "between operations"},
                    {"seconds_per_step", (profile.steps_s - in_ops_s) / steps},
                    {"predicted_seconds_per_step", nullptr}});
  return groups;
}

}  // namespace

std::string WriteOpProfile(const OpProfile& profile, const spec::Plan& plan) {
  const auto steps = static_cast<double>(profile.num_steps);
  Json ops = Json::array();
  for (const OpUse& use : profile.ops) {
    const OpRates rates = RatesOf(use, plan);
    ops.push_back({{"kind", base::ToString(use.record.kind)},
                   {"dims", DimsJson(use.record)},
                   {"group", ToString(GroupOf(use.record))},
                   {"count_per_step", static_cast<double>(use.count) / steps},
                   {"seconds_per_step", use.seconds / steps},
                   {"share", use.seconds / profile.steps_s},
                   {"flops_per_s", RateOrNull(rates.flops_per_s)},
                   {"bytes_per_s", RateOrNull(rates.bytes_per_s)},
                   {"share_of_peak", RateOrNull(rates.share_of_peak)}});
  }
  const Json json = {{"rank", profile.rank},
                     {"pipeline", profile.coord.pipeline},
                     {"data", profile.coord.data},
                     {"context", profile.coord.context},
                     {"tensor", profile.coord.tensor},
                     {"num_steps", profile.num_steps},
                     {"step_time_s", profile.steps_s / steps},
                     {"groups", GroupsJson(profile, plan)},
                     {"ops", ops}};
  return json.dump(2);
}

}  // namespace tessera::engine
