#include "cost_model/spec/step_warnings_json.h"

#include <nlohmann/json.hpp>

namespace tessera::spec {

nlohmann::ordered_json StepWarningsToJson(const std::vector<StepWarning>& warnings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const StepWarning& warning : warnings) {
    list.push_back({{"kind", ToString(warning.kind)},
                    {"what", warning.what},
                    {"remedy", warning.remedy},
                    {"share", warning.share}});
  }
  return list;
}

}  // namespace tessera::spec
