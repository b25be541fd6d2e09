#include "planner/what_if/assumptions_json.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cost_model/spec/plan_json.h"

namespace tessera::planner {
namespace {

using nlohmann::ordered_json;

// The unit that a key ends in.
std::string UnitOf(const std::string& name) {
  struct Ending {
    const char* text;
    const char* unit;
  };
  constexpr std::array<Ending, 9> kEndings = {{{"_s_per_kernel", "s"},
                                               {"_s_per_collective", "s"},
                                               {"bytes_per_s", "B/s"},
                                               {"flops_per_s", "FLOP/s"},
                                               {"per_hour_usd", "$/h"},
                                               {"scores_per_s", "1/s"},
                                               {"_bytes", "B"},
                                               {"_w", "W"},
                                               {"_s", "s"}}};
  // Keys of rates hold one for each type: the type comes last.
  const std::string parent = name.substr(0, name.find_last_of('/'));
  for (const std::string& key : {name, parent}) {
    for (const Ending& ending : kEndings) {
      if (key.ends_with(ending.text)) return ending.unit;
    }
  }
  return "";
}

// A price given for the run stands instead of the file's.
void AddCluster(const spec::ClusterSpec& cluster, bool has_own_price, ordered_json& list) {
  const ordered_json document = spec::ClusterToJson(cluster);
  for (const auto& [pointer, source] : cluster.sources) {
    if (has_own_price && pointer.ends_with("price_per_hour_usd")) continue;
    const ordered_json::json_pointer at(pointer);
    if (!document.contains(at)) continue;
    const ordered_json& number = document.at(at);
    const bool is_wrapped = number.is_object() && number.contains("value");
    list.push_back({{"cluster", cluster.name},
                    {"name", pointer.substr(1)},
                    {"value", is_wrapped ? number["value"] : number},
                    {"unit", UnitOf(pointer)},
                    {"tag", source.tag},
                    {"source", source.text}});
  }
}

void AddNumber(const char* name, const SourcedNumber& number, ordered_json& list) {
  if (!std::isfinite(number.value)) return;
  std::string unit = UnitOf(name);
  if (std::string(name).ends_with("_per_device")) unit = "B/s";
  list.push_back({{"cluster", ""},
                  {"name", name},
                  {"value", number.value},
                  {"unit", unit},
                  {"tag", number.source.tag},
                  {"source", number.source.text}});
}

}  // namespace

ordered_json AssumptionsToJson(const WhatIfRequest& request) {
  ordered_json list = ordered_json::array();
  std::set<std::string> known;
  const RunTerms& terms = request.terms;
  for (const SweepPoint& point : request.points) {
    const spec::ClusterSpec& cluster = point.request.job.cluster;
    if (!point.variant.empty() || !known.insert(cluster.name).second) continue;
    const auto price = terms.price_per_device_hour.find(cluster.name);
    AddCluster(cluster, price != terms.price_per_device_hour.end(), list);
    if (price == terms.price_per_device_hour.end()) continue;
    list.push_back({{"cluster", cluster.name},
                    {"name", "price_per_hour_usd"},
                    {"value", price->second},
                    {"unit", "$/h"},
                    {"tag", "assumed"},
                    {"source", "--price"}});
  }
  if (!terms.tokens) return list;
  AddNumber("mtbf_device_s", terms.mtbf_device_s, list);
  if (terms.checkpoint_s) {
    AddNumber("checkpoint_s", *terms.checkpoint_s, list);
  } else if (terms.storage_bandwidth_bytes_per_s) {
    AddNumber("storage_bandwidth_bytes_per_s", *terms.storage_bandwidth_bytes_per_s, list);
  } else {
    AddNumber("storage_bandwidth_bytes_per_s_per_device",
              terms.storage_bandwidth_bytes_per_s_per_device, list);
  }
  AddNumber("restart_s", terms.restart_s, list);
  AddNumber("node_power_factor", terms.node_power_factor, list);
  AddNumber("power_usage_effectiveness", terms.power_usage_effectiveness, list);
  return list;
}

ordered_json FormulasToJson() {
  const auto entry = [](const char* name, const char* formula, const char* source) {
    return ordered_json{{"name", name}, {"formula", formula}, {"source", source}};
  };
  return ordered_json::array(
      {entry("step time",
             "forward + backward + recomputation + exposed communication of each axis + pipeline "
             "bubble + optimizer + other + waiting for the slowest device",
             "cost_model/README.md: every term with its formula and source"),
       entry("tokens per second", "global batch size x sequence length / step time", ""),
       entry("MFU",
             "model FLOPs of a step / (step time x devices x dense peak of a device), without "
             "recomputation",
             "Narayanan et al. 2021, arXiv:2104.04473; Chowdhery et al. 2022, arXiv:2204.02311"),
       entry("MTBF of the job", "MTBF of a device / devices",
             "failures of independent devices add up"),
       entry("checkpoint time", "bytes of weights and optimizer state / storage bandwidth", ""),
       entry("checkpoint interval",
             "sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C for C < 2M, else M; C "
             "checkpoint time, M MTBF of the job",
             "Daly 2006, equation 37; to first order sqrt(2 C M): Young 1974"),
       entry("goodput", "interval / (M e^(R / M) (e^((interval + C) / M) - 1)); R restart time",
             "Daly 2006, equation 13"),
       entry("days", "tokens / (tokens per second x goodput) / 86,400", ""),
       entry("device-hours", "days x 24 x devices", ""),
       entry("cost", "device-hours x price of a device-hour", ""),
       entry("energy",
             "device-hours x rated power of a device x power of a node for each watt of its "
             "devices x power usage effectiveness",
             ""),
       entry("frontier", "points of which no other takes both no longer and no more money", "")});
}

}  // namespace tessera::planner
