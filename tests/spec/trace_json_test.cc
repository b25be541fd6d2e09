#include "cost_model/spec/trace_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cost_model/base/error.h"

namespace tessera::spec {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Two passes, an exchange whose send and receive share their time, two messages on their way at
// once, an update.
RankTimeline SmallTimeline() {
  RankTimeline timeline;
  timeline.actions = {{{ActionKind::kForward, 0, 0, -1}, 0.0, 0.5},
                      {{ActionKind::kSendForward, 0, 0, 0}, 0.5, 0.8},
                      {{ActionKind::kRecvBackward, 0, 0, 0}, 0.5, 0.8},
                      {{ActionKind::kSendForward, 0, 1, 1}, 0.75, 0.9},
                      {{ActionKind::kBackward, 0, 0, -1}, 1.0, 2.0}};
  timeline.phases = {{PhaseKind::kReduceGradients, 2.0, 2.25}, {PhaseKind::kOptimizer, 2.25, 2.5}};
  timeline.memory = {{0.0, 100}, {0.5, 300}, {2.0, 100}};
  return timeline;
}

TraceProcess SmallProcess(bool is_predicted) {
  return {.name = is_predicted ? "predicted stage 0" : "rank 0",
          .is_predicted = is_predicted,
          .rank = 0,
          .pipeline_stage = 0,
          .timeline = SmallTimeline()};
}

json EventsOf(const std::string& text) { return json::parse(text).at("traceEvents"); }

std::vector<json> EventsOfPhase(const json& events, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : events) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

TEST(TraceJsonTest, EveryActionAndPhaseIsACompleteEventInMicroseconds) {
  const json events = EventsOf(TraceText({SmallProcess(false)}));
  std::map<std::string, std::pair<double, double>> seen;
  for (const json& event : EventsOfPhase(events, "X")) {
    seen[event.at("name")] = {event.at("ts"), event.at("dur")};
  }
  EXPECT_THAT(seen,
              ::testing::UnorderedElementsAre(
                  ::testing::Pair("0F0", ::testing::Pair(0.0, 0.5e6)),
                  ::testing::Pair("0SF0", ::testing::Pair(0.5e6, ::testing::DoubleEq(0.3e6))),
                  ::testing::Pair("0RB0", ::testing::Pair(0.5e6, ::testing::DoubleEq(0.3e6))),
                  ::testing::Pair("0SF1", ::testing::Pair(0.75e6, ::testing::DoubleEq(0.15e6))),
                  ::testing::Pair("0B0", ::testing::Pair(1e6, 1e6)),
                  ::testing::Pair("reduce gradients", ::testing::Pair(2e6, 0.25e6)),
                  ::testing::Pair("optimizer", ::testing::Pair(2.25e6, 0.25e6))));
}

TEST(TraceJsonTest, EventsThatOverlapLieOnRowsOfTheirOwn) {
  const json events = EventsOf(TraceText({SmallProcess(false)}));
  std::map<int, double> row_end_us;
  for (const json& event : EventsOfPhase(events, "X")) {
    double& end_us = row_end_us[event.at("tid")];
    EXPECT_GE(event.at("ts").get<double>(), end_us) << event;
    end_us = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  std::set<std::string> names;
  for (const json& event : EventsOfPhase(events, "M")) {
    if (event.at("name") == "thread_name") names.insert(event.at("args").at("name"));
  }
  EXPECT_THAT(names,
              ElementsAre("compute", "data-parallel communication", "receive", "send", "send 2"));
}

TEST(TraceJsonTest, MemoryIsACounter) {
  std::vector<int64_t> bytes;
  for (const json& event : EventsOfPhase(EventsOf(TraceText({SmallProcess(true)})), "C")) {
    EXPECT_EQ(event.at("name"), "memory");
    bytes.push_back(event.at("args").at("bytes"));
  }
  EXPECT_THAT(bytes, ElementsAre(100, 300, 100));
}

class TraceFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    path_ = ::testing::TempDir() + "trace_json_test.json";
    std::ofstream(path_) << text;
    return path_;
  }
  ~TraceFileTest() override { std::remove(path_.c_str()); }

 private:
  std::string path_;
};

TEST_F(TraceFileTest, PredictionAndMeasurementShareOneFileUnderDifferentProcesses) {
  const std::string measured = TraceText({SmallProcess(false)});
  const json events = EventsOf(TraceText({SmallProcess(true)}, LoadTraceEvents(Write(measured))));
  std::map<int, int> num_events;
  for (const json& event : events) ++num_events[event.at("pid")];
  ASSERT_EQ(num_events.size(), 2U);
  EXPECT_EQ(num_events.begin()->second, num_events.rbegin()->second);
}

TEST_F(TraceFileTest, AnArrayOfEventsIsATraceToo) {
  EXPECT_EQ(EventsOf(TraceText({}, LoadTraceEvents(Write(R"([{"ph": "X"}, {"ph": "C"}])")))).size(),
            2U);
}

TEST_F(TraceFileTest, OtherFilesAreRefused) {
  EXPECT_THAT([&] { LoadTraceEvents(Write(R"({"traceEvents": 3})")); },
              ThrowsMessage<base::ConfigError>(
                  HasSubstr("/traceEvents: found 3, expected an array of trace events")));
  EXPECT_THAT([&] { LoadTraceEvents(Write(R"({"rows": []})")); },
              ThrowsMessage<base::ConfigError>(HasSubstr("expected an array of trace events")));
  EXPECT_THROW(LoadTraceEvents(Write("{")), base::ConfigError);
}

}  // namespace
}  // namespace tessera::spec
