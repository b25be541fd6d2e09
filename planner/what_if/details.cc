#include "planner/what_if/details.h"

#include "cost_model/base/check.h"

namespace tessera::planner {

Detail DetailOf(const WhatIfPoint& point) {
  TESSERA_CHECK(point.found.best, "a point without a layout: ", point.found.id);
  return {.point = point.found.id, .stages = point.found.best->report.stages};
}

}  // namespace tessera::planner
