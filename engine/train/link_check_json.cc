#include "engine/train/link_check_json.h"

#include <nlohmann/json.hpp>

namespace tessera::engine {
namespace {

using Json = nlohmann::ordered_json;

Json KnownOrNull(double value) { return value > 0 ? Json(value) : Json(); }

Json RatesJson(double bandwidth_bytes_per_s, double expected_bytes_per_s, double latency_s,
               double expected_latency_s, double least_share) {
  Json json = {{"bandwidth_bytes_per_s", bandwidth_bytes_per_s},
               {"expected_bandwidth_bytes_per_s", KnownOrNull(expected_bytes_per_s)},
               {"share", nullptr},
               {"is_slow", false},
               {"latency_s", latency_s},
               {"expected_latency_s", KnownOrNull(expected_latency_s)}};
  if (expected_bytes_per_s <= 0) return json;
  const double share = bandwidth_bytes_per_s / expected_bytes_per_s;
  json["share"] = share;
  json["is_slow"] = share < least_share;
  return json;
}

}  // namespace

std::string WriteLinkCheck(const LinkCheck& check, double least_share) {
  Json collectives = Json::array();
  for (const CollectiveCheck& of : check.collectives) {
    Json json = {{"operation", base::ToString(of.kind)}};
    json.update(RatesJson(of.bandwidth_bytes_per_s, of.expected_bandwidth_bytes_per_s, of.latency_s,
                          of.expected_latency_s, least_share));
    json["wrong"] = of.wrong.empty() ? Json() : Json(of.wrong);
    collectives.push_back(std::move(json));
  }
  Json pairs = Json::array();
  for (const PairCheck& pair : check.pairs) {
    Json json = {{"ranks", {pair.first, pair.second}}};
    json.update(RatesJson(pair.bandwidth_bytes_per_s, check.expected_bandwidth_bytes_per_s,
                          pair.latency_s, check.expected_latency_s, least_share));
    pairs.push_back(std::move(json));
  }
  const Json json = {{"num_ranks", check.num_ranks},
                     {"least_share", least_share},
                     {"collectives", collectives},
                     {"pairs", pairs}};
  return json.dump(2);
}

}  // namespace tessera::engine
