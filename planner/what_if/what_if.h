// What-if: many jobs priced, each with its best layout, and what a run on them takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/spec/timeline.h"
#include "planner/what_if/comparison.h"
#include "planner/what_if/economics.h"
#include "planner/what_if/sweep.h"

namespace tessera::planner {

struct WhatIfRequest {
  std::string command;  // as typed
  std::vector<SweepPoint> points;
  RunTerms terms;
  // With terms.tokens and within_s: `points` leave the number of devices open, and it is searched.
  bool searches_devices = false;
  bool finds_margins = true;  // also what changes of the answer's cluster would bring
};

// A point with what a run there takes.
struct WhatIfPoint {
  SweepPoint asked;
  PointResult found;
  std::optional<RunFigures> run;  // where a layout fits and the tokens are known
  const cost_model::Job& job() const { return asked.request.job; }
};

// The answer to --within and --budget for one model and sequence length. Points are told by id.
struct Answer {
  std::string model;
  int64_t sequence_length = 0;
  std::string question;
  bool is_feasible = false;
  std::string text;
  std::optional<int> point;  // the answer, or, where there is none, what comes closest
  std::optional<int> fewest_devices;
  std::optional<int> cheapest;  // absent where a price is missing
  std::vector<int> alternatives;
  std::vector<std::string> unlock;  // what would make it possible
};

// One number of the cluster changed under one point, all else kept.
struct Margin {
  std::string change;
  int point = 0;
  RankedLayout layout;
  std::optional<RunFigures> run;
  double tokens_per_s_gain_share = 0;
  std::optional<double> days_saved;
  std::optional<double> cost_saved_usd;  // at the same price
};

// Where the best layout changes.
struct Crossover {
  std::string model, cluster;
  std::string axis;  // "devices", or a number of the cluster
  std::string unit;
  double from = 0;
  double to = 0;
  std::string layout_before, layout_after;
  int64_t global_batch_size = 0;
  int64_t sequence_length = 0;
};

// How throughput grows with the devices, against the fewest of them.
struct ScalingCurve {
  std::string model, cluster;
  bool is_weak = false;           // the batch grows with the devices
  int64_t global_batch_size = 0;  // of the first point
  int64_t sequence_length = 0;
  struct Step {
    int num_devices = 0;
    int point = 0;
    double efficiency_share = 0;  // throughput a device over the first point's
  };
  std::vector<Step> steps;
};

// Points that are looked at closely, at most.
inline constexpr size_t kMostDetails = 4;

// A point looked at closely.
struct Detail {
  int point = 0;
  double step_time_s = 0;
  // Compute passes of the pipeline by stage, in the order of their ends: of all those of the step
  // the first.
  std::vector<std::vector<spec::TimedAction>> passes;
  size_t num_passes = 0;                  // of the whole step
  double shown_until_s = 0;               // no pass that ends later is there
  std::vector<spec::StageMemory> stages;  // with their terms
};

struct WhatIfResult {
  std::vector<WhatIfPoint> points;   // in the order of the request, or as they were searched
  bool is_complete = true;           // false: cancelled
  std::vector<std::string> summary;  // plain sentences, the answer first
  std::vector<int> frontier;
  std::vector<Answer> answers;  // one for each model and sequence length; empty: nothing was asked
  std::vector<Margin> margins;
  std::vector<Crossover> crossovers;
  std::vector<ScalingCurve> scalings;
  std::vector<Detail> details;
  std::optional<Comparison> comparison;
};

WhatIfResult RunWhatIf(const WhatIfRequest& request, const SweepOptions& options);

}  // namespace tessera::planner
