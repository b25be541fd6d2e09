#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "planner/report/plot_axis.h"
#include "planner/report/quantity.h"
#include "planner/report/static_chart.h"
#include "planner/report/table.h"

namespace tessera::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Chart TwoLines() {
  Chart figure{.id = "figure-test", .title = "Test.", .description = "Two lines"};
  figure.x = {.label = "devices", .quantity = Quantity::kCount, .is_log = true};
  figure.y = {.label = "MFU [%]", .quantity = Quantity::kShare, .scale = {0.01, "%"}};
  figure.series = {{.name = "a",
                    .color = "series-0",
                    .group = 0,
                    .style = 1,
                    .end_label = "alpha",
                    .marks = {{8, 0.5, 0, "first"}, {64, 0.25, 1, "second"}}},
                   {.name = "b",
                    .color = "series-1",
                    .group = 1,
                    .style = 1,
                    .end_label = "beta",
                    .marks = {{8, 0.4, 2, "third"}}}};
  figure.answer = 1;
  return figure;
}

TEST(ReportQuantityTest, NumbersComeInUnitsThatPeopleUse) {
  EXPECT_EQ(FormatQuantity(Quantity::kDays, 48.31), "48.3 days");
  EXPECT_EQ(FormatQuantity(Quantity::kDays, 0.5), "12 hours");
  EXPECT_EQ(FormatQuantity(Quantity::kDollars, 12'345'678), "12.3 M$");
  EXPECT_EQ(FormatQuantity(Quantity::kDeviceHours, 120'000), "120 k GPU-hours");
  EXPECT_EQ(FormatQuantity(Quantity::kBytes, 64.0 * 1024 * 1024 * 1024), "64 GiB");
  EXPECT_EQ(FormatQuantity(Quantity::kTokensPerSecond, 1'132'895), "1.13 M tokens/s");
  EXPECT_EQ(FormatQuantity(Quantity::kShare, 0.538), "53.8 %");
  EXPECT_EQ(FormatQuantity(Quantity::kSeconds, 5 * 86400), "5 days");
  EXPECT_EQ(FormatQuantity(Quantity::kCount, 16384), "16,384");
  EXPECT_EQ(FormatQuantity(Quantity::kSeconds, 0), "0 s");
}

TEST(ReportAxisTest, CountsOnALogarithmicAxisHavePowersOfTwo) {
  const PlotAxis axis({.quantity = Quantity::kCount, .is_log = true}, {64, 1024});
  EXPECT_THAT(axis.ticks(), ElementsAre(64, 128, 256, 512, 1024));
  EXPECT_NEAR(axis.ShareOf(256), 0.5, 1e-12);  // the geometric mean of both ends
}

TEST(ReportAxisTest, ALinearAxisStartsAtZeroInRoundSteps) {
  const PlotAxis axis({.quantity = Quantity::kShare, .scale = {0.01, "%"}}, {0.31, 0.57});
  EXPECT_EQ(axis.ShareOf(0), 0);
  EXPECT_EQ(axis.TickText(axis.ticks().front()), "0");
  EXPECT_EQ(axis.TickText(axis.ticks()[1]), "10");
  EXPECT_GE(axis.ticks().back(), 0.57);
}

TEST(ReportAxisTest, AnAxisOfOneValueOrNoneHasAPlaceForIt) {
  for (const std::vector<double>& values : {std::vector<double>{}, {0}, {7}}) {
    for (const bool is_log : {false, true}) {
      const PlotAxis axis({.is_log = is_log}, values);
      const double value = values.empty() || values[0] == 0 ? 1 : values[0];
      EXPECT_TRUE(std::isfinite(axis.ShareOf(value))) << is_log << " " << values.size();
    }
  }
}

TEST(StaticChartTest, HasALineForEachSeriesAndACircleForEachMark) {
  const std::string svg = StaticChart(TwoLines());
  EXPECT_EQ(CountOf(svg, "<g class=\"series\""), 2U);
  EXPECT_EQ(CountOf(svg, "class=\"line dash-1\""), 2U);
  EXPECT_EQ(CountOf(svg, "r=\"3.2\""), 3U);
  EXPECT_EQ(CountOf(svg, "class=\"ring\""), 1U);
  EXPECT_THAT(svg, HasSubstr(">alpha</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>second</title>"));
  EXPECT_THAT(svg, HasSubstr("data-group=\"1\" data-style=\"1\""));
  EXPECT_THAT(svg, HasSubstr("aria-label=\"Two lines\""));
}

TEST(StaticChartTest, MarksWithoutAPlaceAreLeftOut) {
  Chart figure = TwoLines();
  figure.series[1].marks = {{0, 0.5, 2, "none"}, {8, NAN, 3, "none"}};
  const std::string svg = StaticChart(figure);
  EXPECT_EQ(CountOf(svg, "r=\"3.2\""), 2U);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(StaticChartTest, NamesAreEscaped) {
  Chart figure = TwoLines();
  figure.series[0].end_label = "<script>&";
  const std::string svg = StaticChart(figure);
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

TEST(StaticBarsTest, PartsOfABarFollowEachOther) {
  Chart figure{.id = "bars", .kind = ChartKind::kBars};
  figure.x = {.label = "share", .quantity = Quantity::kShare, .scale = {0.01, "%"}};
  figure.bars = {"one", "two"};
  figure.bar_ends = {"1 s", "2 s"};
  figure.series = {{.name = "a", .color = "part-0", .marks = {{0, 0.25}, {1, 0.5}}},
                   {.name = "b", .color = "part-1", .marks = {{0, 0.75}, {1, 0.5}}}};
  EXPECT_THAT(BarLengths(figure), ElementsAre(1, 1));
  const std::string svg = StaticChart(figure);
  EXPECT_EQ(CountOf(svg, "<rect"), 4U);
  // "one" and "two" are short: bars begin at 60 of 760 and have 100 behind them: 600 units.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"60\" y=\"18\" width=\"150\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"210\" y=\"18\" width=\"450\""));
  EXPECT_THAT(svg, HasSubstr(">2 s</text>"));
}

TEST(TableHtmlTest, NumbersKeepTheirExactValue) {
  const std::string html = TableHtml(
      {.id = "t",
       .caption = "A & B",
       .columns = {{.title = "name"}, {.title = "MFU [%]", .is_number = true, .key = "mfu"}},
       .rows = {{{TextCell("a<b"), {.text = "53.8", .value = "0.5383386144692112", .point = 7}},
                 {{"data-group", "0"}}},
                {{TextCell("c"), MissingCell()}, {}}}});
  EXPECT_THAT(html, HasSubstr("<caption>A &amp; B</caption>"));
  EXPECT_THAT(html, HasSubstr("<td>a&lt;b</td>"));
  EXPECT_THAT(html, HasSubstr("data-value=\"0.5383386144692112\" data-point=\"7\">53.8</td>"));
  EXPECT_THAT(html, HasSubstr("data-key=\"mfu\" aria-sort=\"none\"><button type=\"button\">"));
  EXPECT_THAT(html, HasSubstr("<tr data-group=\"0\">"));
  EXPECT_THAT(html, HasSubstr("data-missing"));
}

}  // namespace
}  // namespace tessera::planner
