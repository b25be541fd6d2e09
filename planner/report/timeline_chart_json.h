// The simulated pipeline of a point: stages down, time across.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "planner/report/what_if_view_json.h"

namespace tessera::planner {

// Times count in this many parts of the makespan: a fine enough grid for any screen, and short to
// write.
constexpr int kTimelineParts = 1'000'000;

struct TimelineChart {
  std::string html;        // a <figure>
  Json data;               // what the page's scripts need to tell about its actions
  size_t num_actions = 0;  // of both
};

// At most `max_actions` are drawn, those that end first: the caption says so. nullopt: the detail
// has no timeline.
std::optional<TimelineChart> MakeTimelineChart(const WhatIfView& view, const Json& detail,
                                               int number, size_t max_actions);

}  // namespace tessera::planner
