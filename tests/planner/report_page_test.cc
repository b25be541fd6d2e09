#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planner/report/page.h"
#include "planner/report/page_assets.h"
#include "planner/report/timeline_chart_json.h"
#include "planner/report/what_if_html_json.h"

namespace tessera::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json PointOf(int id, int devices, double step_s) {
  return {{"id", id},
          {"model", "m"},
          {"cluster", "c"},
          {"devices", devices},
          {"global_batch_size", 64},
          {"sequence_length", 2048},
          {"variant", ""},
          {"feasible", true},
          {"layout_text", "tp 2, pp 2"},
          {"step_time_s", step_s},
          {"tokens_per_s", 64 * 2048 / step_s},
          {"mfu", 0.4},
          {"memory", {{"peak_bytes", 1 << 30}}},
          {"time", {{"compute_s", 0.75 * step_s}, {"bubble_s", 0.25 * step_s}}}};
}

// Two stages, two micro-batches.
Json TimelineOf() {
  const auto action = [](const char* kind, int micro_batch, double start_s, double end_s) {
    return Json{{"kind", kind},
                {"micro_batch", micro_batch},
                {"chunk", 0},
                {"start_s", start_s},
                {"end_s", end_s}};
  };
  return {
      {"makespan_s", 9.0},
      {"stages",
       {{action("F", 0, 0, 1), action("F", 1, 1, 2), action("B", 0, 4, 6), action("B", 1, 7, 9)},
        {action("F", 0, 1, 2), action("B", 0, 2, 4), action("F", 1, 4, 5), action("B", 1, 5, 7)}}}};
}

Json SmallDocument() {
  return {
      {"command", "tessera what-if --model m"},
      {"summary", {"It takes 8 devices.", "More do not help."}},
      {"clusters", {{{"name", "c"}, {"memory_bytes", 8e9}}}},
      {"points", {PointOf(0, 4, 2.0), PointOf(1, 8, 1.25)}},
      {"answer", {{"question", "How many?"}, {"feasible", true}, {"text", "Eight."}, {"point", 1}}},
      {"details",
       {{{"point", 1},
         {"timeline", TimelineOf()},
         {"memory_stages",
          {{{"stage", 0}, {"terms", {{{"name", "weights"}, {"bytes", 1 << 29}}}}},
           {{"stage", 1}, {"terms", {{{"name", "weights"}, {"bytes", 1 << 28}}}}}}}}}},
      {"assumptions",
       {{{"cluster", "c"},
         {"name", "link"},
         {"value", 5e10},
         {"unit", "bytes/s"},
         {"tag", "spec"},
         {"source", "data sheet"}}}}};
}

// What lies between two texts, the first time.
std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t first = text.find(begin);
  if (first == std::string::npos) return "";
  const size_t start = first + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

Json DataOf(const std::string& html, const std::string& id) {
  return Json::parse(Between(html, "id=\"" + id + "\">", "</script>"));
}

TEST(PageTest, CarriesAllThatItNeeds) {
  const std::string html = PageHtml({.title = "T & U", .body = "<main>{{body}}</main>"});
  EXPECT_THAT(html, HasSubstr("<title>T &amp; U</title>"));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("<main>{{body}}</main>"));  // texts are not looked into
  EXPECT_THAT(html, HasSubstr(std::string(PageStyle())));
  EXPECT_THAT(html, HasSubstr(std::string(PageScript())));
  EXPECT_THAT(html, Not(HasSubstr(" src=")));
  EXPECT_THAT(html, Not(HasSubstr("url(")));
}

TEST(PageTest, JsonCannotEndItsScript) {
  const Json nasty = {{"name", "</script><!-- <script>"}};
  const std::string escaped = EscapeJsonForScript(nasty.dump());
  EXPECT_THAT(escaped, Not(HasSubstr("<")));
  EXPECT_EQ(Json::parse(escaped), nasty);
}

TEST(PageTest, ScriptsCannotEndTheirElement) {
  EXPECT_EQ(PageScript().find("</script"), std::string_view::npos);
  EXPECT_EQ(ChartLibrary().find("</script"), std::string_view::npos);
}

TEST(PageTest, TheChartLibraryKeepsItsLicenceLine) {
  if (ChartLibrary().empty()) GTEST_SKIP() << "built without Chart.js";
  EXPECT_THAT(std::string(ChartLibrary().substr(0, 300)), HasSubstr("MIT License"));
  EXPECT_THAT(WhatIfHtml(SmallDocument()), HasSubstr("Released under the MIT License"));
}

TEST(WhatIfHtmlTest, SaysTheAnswerFirst) {
  const std::string html = WhatIfHtml(SmallDocument());
  EXPECT_LT(html.find("Eight."), html.find("It takes 8 devices."));
  EXPECT_LT(html.find("It takes 8 devices."), html.find("<figure"));
  EXPECT_THAT(html, HasSubstr("How many?"));
  EXPECT_THAT(html, HasSubstr("tessera what-if --model m"));
}

TEST(WhatIfHtmlTest, CarriesTheDocumentButForTheTimelines) {
  Json expected = SmallDocument();
  const std::string html = WhatIfHtml(expected);
  expected["details"][0].erase("timeline");
  EXPECT_EQ(DataOf(html, "data"), expected);
}

TEST(WhatIfHtmlTest, ChartsHoldThePointsNumbers) {
  const Json document = SmallDocument();
  const Json figures = DataOf(WhatIfHtml(document), "figures");
  ASSERT_GE(figures.size(), 3U);
  EXPECT_EQ(figures[0]["id"], "figure-tokens_per_s");
  const Json& marks = figures[0]["series"][0]["marks"];
  ASSERT_EQ(marks.size(), 2U);
  for (const Json& mark : marks) {
    const Json& point = document["points"][mark["point"].get<size_t>()];
    EXPECT_EQ(mark["x"], point["devices"]);
    EXPECT_EQ(mark["y"], point["tokens_per_s"]);
  }
}

TEST(WhatIfHtmlTest, SaysSoWhereChartsAreStatic) {
  const std::string html = WhatIfHtml(SmallDocument());
  EXPECT_EQ(html.find("id=\"static-charts\"") != std::string::npos, ChartLibrary().empty());
  EXPECT_THAT(html, HasSubstr("<svg class=\"chart\""));
}

TEST(WhatIfHtmlTest, AnImpossibleQuestionShowsWhatWouldMakeItPossible) {
  Json document = SmallDocument();
  document["points"] = Json::array({{{"id", 0},
                                     {"model", "m"},
                                     {"cluster", "c"},
                                     {"devices", 4},
                                     {"feasible", false},
                                     {"reason", "Nothing fits."}}});
  document["details"] = Json::array();
  document["answer"] = {{"question", "How many?"},
                        {"feasible", false},
                        {"text", "No number of devices is enough."},
                        {"unlock", {"Twice the memory would do."}}};
  const std::string html = WhatIfHtml(document);
  EXPECT_THAT(html, HasSubstr("No number of devices is enough."));
  EXPECT_THAT(html, HasSubstr("Twice the memory would do."));
  EXPECT_THAT(html, HasSubstr("Nothing fits."));
  EXPECT_THAT(html, Not(HasSubstr("<figure")));
}

TEST(WhatIfHtmlTest, AnEmptyDocumentIsAPageToo) {
  EXPECT_THAT(WhatIfHtml(Json::object()), HasSubstr("</html>"));
}

TEST(TimelineChartTest, HasEachActionAtItsPlace) {
  const Json document = SmallDocument();
  const WhatIfView view(document);
  const auto chart = MakeTimelineChart(view, document["details"][0], 1, 100);
  ASSERT_TRUE(chart.has_value());
  EXPECT_EQ(chart->num_actions, 8U);
  const Json& first = chart->data["stages"][0];
  EXPECT_EQ(first["kinds"], "FFBB");
  EXPECT_EQ(first["starts"], (Json{0, 111111, 444444, 777778}));  // ninths of a million
  EXPECT_EQ(first["ends"], (Json{111111, 222222, 666667, 1000000}));
  EXPECT_THAT(chart->html, HasSubstr("<path class=\"do-F\" d=\"M0 1.5h111111v"));
}

TEST(TimelineChartTest, ALongOneIsCutAndSaysSo) {
  const Json document = SmallDocument();
  const WhatIfView view(document);
  const auto chart = MakeTimelineChart(view, document["details"][0], 1, 4);
  ASSERT_TRUE(chart.has_value());
  EXPECT_THAT(chart->html, HasSubstr("Drawn is the first part of it"));
  // By their ends: F0 of stage 0 (1), F1 and F0 of stage 1 (2), B0 of stage 1 (4).
  EXPECT_EQ(chart->num_actions, 4U);
  EXPECT_EQ(chart->data["shown"], 444444);
}

}  // namespace
}  // namespace tessera::planner
