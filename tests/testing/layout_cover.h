// Small trainings in which every two choices of model and layout meet.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/plan.h"
#include "tests/testing/pairwise.h"

namespace tessera::testing {

struct CoverTraining {
  std::string name;  // for people: the choices that are not the first of their axis
  CoverRow choices;  // along CoverAxes
  spec::Plan plan;
};

// Global batches of 16 sequences, at most 16 ranks.
struct LayoutCover {
  std::vector<CoverTraining> trainings;
  // Pairs that no plan can have: a rule of the layout forbids them, or one of the two would have
  // no effect (sequence parallelism of one tensor rank).
  std::vector<ValuePair> forbidden;
  // Pairs that break no rule, but that the engine refuses to run.
  std::vector<ValuePair> refused;
};

// The same on every call.
const LayoutCover& CoverOfLayouts();

// "tensor=2 with zero=3"
std::string ToString(const ValuePair& pair);

}  // namespace tessera::testing
