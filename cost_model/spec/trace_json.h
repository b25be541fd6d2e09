// Timelines in Chrome's trace event form, which chrome://tracing and ui.perfetto.dev open.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/timeline.h"

namespace tessera::spec {

// One rank, or one stage, on the page: a process of the trace, with a row for each of its streams.
struct TraceProcess {
  std::string name;
  bool is_predicted = false;  // or measured
  int rank = 0;               // or stage; unlike that of any other process of its kind
  int pipeline_stage = 0;     // processes are shown in the order of their stages
  RankTimeline timeline;
};

// The text of a trace file: complete events ("ph": "X") in microseconds from the step's start, on
// the rows computing, sends, receives and data-parallel communication; events that overlap get rows
// of their own. Memory is a counter. Predicted and measured processes have ids that differ, so that
// the events of both fit into one file: `other_events`, the events of another trace as JSON without
// the brackets around them, come first.
// Format: "Trace Event Format", Google, 2016.
std::string TraceText(const std::vector<TraceProcess>& processes,
                      const std::string& other_events = "");

// The events of a trace file, for TraceText. Throws base::ConfigError when the file is none.
std::string LoadTraceEvents(const std::string& path);

}  // namespace tessera::spec
