#include "engine/train/comparison_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tessera::engine {
namespace {

using Json = nlohmann::ordered_json;

Json DifferenceJson(const Difference& difference) {
  const bool is_finite = std::isfinite(difference.deviation);
  return {{"what", ToString(difference.kind)},
          {"of", difference.name},
          {"deviation", is_finite ? Json(difference.deviation) : Json()},
          {"index", difference.index},
          {"a", difference.a},
          {"b", difference.b},
          {"ranks_a", difference.ranks_a},
          {"ranks_b", difference.ranks_b},
          {"num_replicas_apart", difference.num_replicas_apart}};
}

}  // namespace

std::string WriteComparison(const LayoutComparison& comparison) {
  Json kinds = Json::array();
  for (const KindComparison& kind : comparison.kinds) {
    kinds.push_back({{"what", ToString(kind.kind)},
                     {"num_compared", kind.num_compared},
                     {"largest", DifferenceJson(kind.largest)}});
  }
  const Json json = {
      {"same", !comparison.first.has_value()},
      {"tolerance", comparison.tolerance},
      {"first_difference", comparison.first ? DifferenceJson(*comparison.first) : Json()},
      {"kinds", kinds}};
  return json.dump(2);
}

}  // namespace tessera::engine
