// Trace files held against the trace event format.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::testing {

// Expects what chrome://tracing and Perfetto ask for: every event has the keys of its kind, every
// process and row has one name, no two events of a row overlap, counters go forward in time.
void ExpectValidTrace(const nlohmann::json& trace);

// The complete events of a trace whose process is called `process`.
std::vector<nlohmann::json> EventsOfProcess(const nlohmann::json& trace,
                                            const std::string& process);

// When the last complete event ends. [s]
double EndOf(const std::vector<nlohmann::json>& events);

}  // namespace tessera::testing
