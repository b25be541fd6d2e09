#include "tests/integration/trace_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace tessera::testing {
namespace {

// Times are decimal microseconds: a sum may end a rounding after the next event starts.
constexpr double kRoundingUs = 1e-3;

using RowId = std::pair<int64_t, int64_t>;  // process, thread

double EndUs(const nlohmann::json& event) {
  return event.at("ts").get<double>() + event.at("dur").get<double>();
}

void ExpectNoOverlap(std::vector<nlohmann::json> events) {
  std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.at("ts").template get<double>(), EndUs(a)) <
           std::make_pair(b.at("ts").template get<double>(), EndUs(b));
  });
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_GE(events[i].at("ts").get<double>(), EndUs(events[i - 1]) - kRoundingUs)
        << events[i - 1] << " and " << events[i];
  }
}

}  // namespace

void ExpectValidTrace(const nlohmann::json& trace) {
  std::map<int64_t, int> process_names;
  std::map<RowId, int> row_names;
  std::map<RowId, std::vector<nlohmann::json>> rows;
  std::map<int64_t, double> counter_us;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    const int64_t process = event.at("pid");
    EXPECT_FALSE(event.at("name").get<std::string>().empty());
    if (phase == "M") {
      const RowId row = {process, event.at("tid").get<int64_t>()};
      if (event.at("name") == "process_name") ++process_names[process];
      if (event.at("name") == "thread_name") ++row_names[row];
    } else if (phase == "X") {
      EXPECT_GE(event.at("ts").get<double>(), 0);
      EXPECT_GE(event.at("dur").get<double>(), 0);
      rows[{process, event.at("tid").get<int64_t>()}].push_back(event);
    } else {
      ASSERT_EQ(phase, "C") << event;
      EXPECT_GE(event.at("ts").get<double>(), counter_us[process]);
      counter_us[process] = event.at("ts");
      EXPECT_GT(event.at("args").at("bytes").get<int64_t>(), 0);
    }
  }
  EXPECT_FALSE(rows.empty());
  for (const auto& [row, events] : rows) {
    EXPECT_EQ(process_names[row.first], 1) << row.first;
    EXPECT_EQ(row_names[row], 1) << row.first << ", " << row.second;
    EXPECT_EQ(counter_us.count(row.first), 1U) << row.first;
    ExpectNoOverlap(events);
  }
}

std::vector<nlohmann::json> EventsOfProcess(const nlohmann::json& trace,
                                            const std::string& process) {
  int64_t id = -1;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    const bool is_name = event.at("ph") == "M" && event.at("name") == "process_name";
    if (is_name && event.at("args").at("name") == process) id = event.at("pid");
  }
  EXPECT_GE(id, 0) << "no process " << process;
  std::vector<nlohmann::json> events;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("pid") == id) events.push_back(event);
  }
  return events;
}

double EndOf(const std::vector<nlohmann::json>& events) {
  double end_us = 0;
  for (const nlohmann::json& event : events) end_us = std::max(end_us, EndUs(event));
  return end_us / 1e6;
}

}  // namespace tessera::testing
