// What small trainings choose from: the axes of the cover of layouts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cost_model/spec/plan.h"
#include "tests/testing/pairwise.h"

namespace tessera::testing {

// A training that is being chosen.
struct CoverDraft {
  spec::Plan plan;
  int num_microbatches = 1;
  bool is_uneven = false;
  bool recomputes_some_layers = false;
  bool is_hybrid = false;  // shards within groups smaller than all ranks that hold the same
};

struct CoverValue {
  std::string name;
  std::function<void(CoverDraft&)> choose;
};
// "tensor": "1", "2", "4"
struct CoverAxis {
  std::string name;
  std::vector<CoverValue> values;
};
// Those of the model, then those of the layout. The first value of each is the plain one.
const std::vector<CoverAxis>& CoverAxes();

// The training of a value of each axis, whatever rules it breaks.
CoverDraft DraftOf(const CoverRow& choices);

}  // namespace tessera::testing
