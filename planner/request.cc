#include "planner/request.h"

#include "cost_model/spec/enum_names.h"

namespace tessera::planner {
namespace {

constexpr spec::EnumNames<Objective, 3> kObjectives = {{{Objective::kThroughput, "throughput"},
                                                        {Objective::kCost, "cost"},
                                                        {Objective::kMemory, "memory"}}};

}  // namespace

std::string_view ToString(Objective objective) { return spec::NameOf(kObjectives, objective); }

std::optional<Objective> ObjectiveFromString(std::string_view text) {
  return spec::ValueOf(kObjectives, text);
}

}  // namespace tessera::planner
