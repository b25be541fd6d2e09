#include "cost_model/spec/trace_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::spec {
namespace {

using nlohmann::ordered_json;

constexpr double kMicrosecondsPerSecond = 1e6;
// Process ids of predictions start here: no measured run has as many ranks.
constexpr int kFirstPredictedId = 1 << 24;
// Thread ids of a row's further lanes lie between its own and the next row's.
constexpr int kMaxLanes = 1000;

enum class Row : uint8_t { kCompute, kSend, kReceive, kData };
constexpr size_t kNumRows = 4;
constexpr std::array<const char*, kNumRows> kRowNames = {"compute", "send", "receive",
                                                         "data-parallel communication"};

// An event before it has a lane.
struct Event {
  std::string name;
  const char* category = "";
  double start_s = 0;
  double end_s = 0;
  const Action* action = nullptr;  // null: a phase
};

Row RowOf(ActionKind kind) {
  if (IsSend(kind)) return Row::kSend;
  return IsRecv(kind) ? Row::kReceive : Row::kCompute;
}

Row RowOf(PhaseKind kind) {
  const bool is_data = kind == PhaseKind::kReduceGradients || kind == PhaseKind::kGatherParameters;
  return is_data ? Row::kData : Row::kCompute;
}

const char* CategoryOf(PhaseKind kind) {
  if (kind == PhaseKind::kWait) return "wait";
  return RowOf(kind) == Row::kData ? "data parallel" : "update";
}

using EventsByRow = std::array<std::vector<Event>, kNumRows>;

EventsByRow EventsOf(const RankTimeline& timeline) {
  EventsByRow rows;
  for (const TimedAction& timed : timeline.actions) {
    const Row row = RowOf(timed.action.kind);
    rows[static_cast<size_t>(row)].push_back({ToString(timed.action),
                                              row == Row::kCompute ? "compute" : "transfer",
                                              timed.start_s, timed.end_s, &timed.action});
  }
  for (const TimedPhase& phase : timeline.phases) {
    rows[static_cast<size_t>(RowOf(phase.kind))].push_back({std::string(ToString(phase.kind)),
                                                            CategoryOf(phase.kind), phase.start_s,
                                                            phase.end_s, nullptr});
  }
  for (std::vector<Event>& events : rows) {
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.start_s < b.start_s; });
  }
  return rows;
}

// Writes the events of one process, each as soon as it is known.
class ProcessWriter {
 public:
  ProcessWriter(const TraceProcess& process, std::string& text)
      : process_(process),
        id_(process.rank + (process.is_predicted ? kFirstPredictedId : 0)),
        text_(text) {}

  void Write() {
    WriteMetadata("process_name", 0, {{"name", process_.name}});
    // Of a stage the prediction first, then its ranks.
    const int64_t sort_index =
        int64_t{2} * process_.pipeline_stage + (process_.is_predicted ? 0 : 1);
    WriteMetadata("process_sort_index", 0, {{"sort_index", sort_index}});
    const EventsByRow rows = EventsOf(process_.timeline);
    for (size_t row = 0; row < kNumRows; ++row) WriteRow(row, rows[row]);
    for (const MemorySample& sample : process_.timeline.memory) {
      Append({{"name", "memory"},
              {"ph", "C"},
              {"pid", id_},
              {"ts", sample.time_s * kMicrosecondsPerSecond},
              {"args", {{"bytes", sample.num_bytes}}}});
    }
  }

 private:
  // In the first lane that is free by then.
  void WriteRow(size_t row, const std::vector<Event>& events) {
    std::vector<double> lane_end_s;
    for (const Event& event : events) {
      size_t lane = 0;
      while (lane < lane_end_s.size() && lane_end_s[lane] > event.start_s) ++lane;
      const int thread = static_cast<int>(row) * kMaxLanes + static_cast<int>(lane);
      if (lane == lane_end_s.size()) {
        lane_end_s.push_back(0);
        WriteLane(row, lane, thread);
      }
      lane_end_s[lane] = event.end_s;
      WriteEvent(event, thread);
    }
  }

  void WriteLane(size_t row, size_t lane, int thread) {
    std::string name = kRowNames[row];
    if (lane > 0) name += base::Concat(" ", lane + 1);
    WriteMetadata("thread_name", thread, {{"name", name}});
    WriteMetadata("thread_sort_index", thread, {{"sort_index", thread}});
  }

  void WriteEvent(const Event& event, int thread) {
    ordered_json json = {{"name", event.name},
                         {"cat", event.category},
                         {"ph", "X"},
                         {"pid", id_},
                         {"tid", thread},
                         {"ts", event.start_s * kMicrosecondsPerSecond},
                         {"dur", (event.end_s - event.start_s) * kMicrosecondsPerSecond}};
    if (event.action != nullptr) {
      json["args"] = {{"virtual_stage", event.action->virtual_stage},
                      {"microbatch", event.action->microbatch}};
    }
    Append(json);
  }

  void WriteMetadata(const char* name, int thread, const ordered_json& args) {
    Append({{"name", name}, {"ph", "M"}, {"pid", id_}, {"tid", thread}, {"args", args}});
  }

  void Append(const ordered_json& event) {
    if (!text_.empty()) text_ += ",\n";
    text_ += event.dump();
  }

  const TraceProcess& process_;
  const int id_;
  std::string& text_;
};

}  // namespace

std::string TraceText(const std::vector<TraceProcess>& processes, const std::string& other_events) {
  std::string events = other_events;
  for (const TraceProcess& process : processes) ProcessWriter(process, events).Write();
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events + "\n]}\n";
}

std::string LoadTraceEvents(const std::string& path) {
  const nlohmann::json document = ReadJsonFile(path);
  // Both forms of the format: an object, or the array of events alone.
  const bool is_object = document.is_object() && document.contains("traceEvents");
  const nlohmann::json& events = is_object ? document["traceEvents"] : document;
  if (!events.is_array()) {
    throw base::ConfigError(path, is_object ? "/traceEvents" : "", DescribeJson(events),
                            "an array of trace events");
  }
  std::string text;
  for (const nlohmann::json& event : events) {
    if (!text.empty()) text += ",\n";
    text += event.dump();
  }
  return text;
}

}  // namespace tessera::spec
