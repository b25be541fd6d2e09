// The rows that come along, and the bounds recorded for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "cost_model/spec/spec_json.h"
#include "planner/validation/figures.h"
#include "planner/validation/validation.h"
#include "planner/validation/validation_html.h"
#include "planner/validation/validation_json.h"

namespace tessera::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::filesystem::path Folder() {
  return std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" / "measurements";
}

std::vector<Measurement> AllRows() {
  std::vector<Measurement> rows;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (entry.path().extension() != ".jsonl") continue;
    for (Measurement& row : ReadMeasurements(entry.path().string())) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

const Validation& PublishedValidation() {
  static const Validation kValidation = [] {
    JobMaker jobs(RowRules::Load((Folder() / "rules.json").string()));
    return Validate(AllRows(), jobs);
  }();
  return kValidation;
}

TEST(PublishedRowsTest, EachHasAnIdOfItsOwnAndNamesItsSource) {
  std::set<std::string> ids;
  for (const Measurement& row : AllRows()) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id;
    EXPECT_NE(row.source, "") << row.id;
    EXPECT_NE(row.source_ref, "") << row.id;
  }
  EXPECT_GT(ids.size(), 1500u);
}

TEST(PublishedRowsTest, NoFigureIsWorseThanItsBound) {
  const std::vector<FigureBound> bounds = ReadFigureBounds((Folder() / "bounds.json").string());
  EXPECT_THAT(bounds, Not(IsEmpty()));
  EXPECT_THAT(FindBrokenBounds(FiguresOf(PublishedValidation()), bounds), IsEmpty());
}

TEST(PublishedRowsTest, EveryPredictionIsAPositiveNumber) {
  for (const RowResult& row : PublishedValidation().rows) {
    if (!row.is_priced()) continue;
    EXPECT_GT(row.predicted_step_time_s, 0) << row.measurement.id;
    EXPECT_GT(row.predicted_peak_memory_bytes, 0) << row.measurement.id;
    EXPECT_TRUE(std::isfinite(row.predicted_step_time_s)) << row.measurement.id;
  }
}

TEST(ValidationJsonTest, HoldsARowPerMeasurement) {
  const Validation& validation = PublishedValidation();
  const nlohmann::ordered_json json = ValidationToJson(validation, nullptr);
  ASSERT_EQ(json["rows"].size(), validation.rows.size());
  for (const auto& row : json["rows"]) {
    ASSERT_TRUE(row.contains("id"));
    if (row.contains("skipped")) {
      EXPECT_NE(row["skipped"], "");
      continue;
    }
    EXPECT_TRUE(row["predicted_step_time_s"].is_number()) << row["id"];
    EXPECT_TRUE(row["predicted_peak_memory_bytes"].is_number()) << row["id"];
    EXPECT_TRUE(row["fits"].is_boolean()) << row["id"];
  }
  EXPECT_FALSE(json.contains("broken_bounds"));
}

TEST(ValidationJsonTest, ScoresFollowFromTheRows) {
  const nlohmann::ordered_json json = ValidationToJson(PublishedValidation(), nullptr);
  double sum = 0;
  int count = 0;
  for (const auto& row : json["rows"]) {
    if (!row.contains("step_time_error")) continue;
    const double predicted_s = row["predicted_step_time_s"];
    const double measured_s = row["measured_step_time_s"];
    sum += std::abs(predicted_s / measured_s - 1);
    ++count;
  }
  const auto& score = json["total"]["step_time"];
  EXPECT_EQ(score["num_rows"], count);
  EXPECT_NEAR(score["mean_absolute_error"].get<double>(), sum / count, 1e-9);
}

TEST(ValidationHtmlTest, ThePageStandsAlone) {
  const std::string page = ValidationHtml(PublishedValidation());
  EXPECT_THAT(page, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  for (const char* reference : {"http://", "https://", " src=", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(reference)));
  }
  // Links lead to places of the page, and to data that it holds.
  for (size_t at = page.find("href=\""); at != std::string::npos;
       at = page.find("href=\"", at + 1)) {
    const std::string target = page.substr(at + 6, 5);
    EXPECT_TRUE(target[0] == '#' || target == "data:") << target;
  }
}

}  // namespace
}  // namespace tessera::planner
