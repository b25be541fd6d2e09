#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cost_model/base/error.h"
#include "planner/validation/measurement.h"

namespace tessera::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kModel =
    R"("model": {"num_layers": 12, "hidden_size": 768, "num_attention_heads": 12,
    "ffn_hidden_size": 3072, "vocab_size": 50257, "seq_length": 1024})";
constexpr const char* kHardware = R"("hardware": {"gpu": "A100-80GB-SXM", "gpus": 8})";
constexpr const char* kLayout = R"("layout": {"precision": "bf16", "global_batch_size": 64})";

// A row on one line, with `more` keys at its end.
std::string Row(const std::string& model, const std::string& hardware, const std::string& layout,
                const std::string& more = "") {
  std::string row = R"({"id": "a", )" + model + ", " + hardware + ", " + layout + more + "}";
  std::erase(row, '\n');
  return row;
}

std::string Row(const std::string& more = "") { return Row(kModel, kHardware, kLayout, more); }

class MeasurementReaderTest : public ::testing::Test {
 protected:
  std::vector<Measurement> Read(const std::string& text) const {
    std::ofstream(path_) << text;
    return ReadMeasurements(path_);
  }

  std::string ErrorOf(const std::string& text) const {
    try {
      Read(text);
    } catch (const base::ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

  void TearDown() override { std::filesystem::remove(path_); }

 private:
  std::string path_ = ::testing::TempDir() +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                      std::string(".jsonl");
};

TEST_F(MeasurementReaderTest, OneRowALineAndEmptyLinesAreLeftOut) {
  const auto rows = Read(Row() + "\n\n  \n" + Row() + "\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].line, 1);
  EXPECT_EQ(rows[1].line, 4);
  EXPECT_EQ(rows[0].model.hidden_size, 768);
}

TEST_F(MeasurementReaderTest, KeysThatNobodyReadsAreAllowed) {
  EXPECT_EQ(Read(Row(R"(, "weather": {"sun": true}, "seen": null)")).size(), 1u);
}

TEST_F(MeasurementReaderTest, NullCountsAsAbsent) {
  const auto rows = Read(
      Row(kModel, kHardware, R"("layout": {"precision": "bf16", "tp": null, "zero_stage": null})"));
  EXPECT_EQ(rows[0].layout.tensor_parallel_size, 1);
  EXPECT_FALSE(rows[0].layout.zero_stage);
}

TEST_F(MeasurementReaderTest, AWrongTypeNamesLineAndKey) {
  EXPECT_THAT(ErrorOf(Row() + "\n" + Row(kModel, kHardware, R"("layout": {"precision": 16})")),
              AllOf(HasSubstr(": line 2: /layout/precision: found 16"), HasSubstr("a text")));
  EXPECT_THAT(ErrorOf(Row(kModel, R"("hardware": {"gpu": "A100", "gpus": 7.5})", kLayout)),
              HasSubstr("/hardware/gpus: found 7.5, expected a whole number"));
  EXPECT_THAT(ErrorOf(Row(kModel, R"("hardware": {"gpu": "A100", "gpus": 0})", kLayout)),
              HasSubstr("/hardware/gpus: found 0"));
  EXPECT_THAT(ErrorOf(Row(R"(, "flags": "rounded")")), HasSubstr("/flags: found \"rounded\""));
  EXPECT_THAT(ErrorOf(Row(R"(, "outcome": "slow")")), HasSubstr("/outcome: found \"slow\""));
  EXPECT_THAT(ErrorOf(Row(R"(, "measured": {"step_time_s": -1})")),
              HasSubstr("/measured/step_time_s: found -1, expected a number above 0"));
  EXPECT_THAT(ErrorOf(Row(R"(, "measured": {"memory_class": "all"})")),
              AllOf(HasSubstr("/measured/memory_class: found \"all\""), HasSubstr("allocated")));
}

TEST_F(MeasurementReaderTest, AMissingKeyIsNamed) {
  EXPECT_THAT(ErrorOf(Row(kModel, R"("hardware": {"gpus": 8})", kLayout)),
              HasSubstr("/hardware/gpu: found no such key"));
  EXPECT_THAT(ErrorOf("{\"id\": \"a\"}"), HasSubstr("/model: found no such key"));
}

TEST_F(MeasurementReaderTest, BadSyntaxNamesTheLine) {
  EXPECT_THAT(ErrorOf(Row() + "\n{oops}\n"), HasSubstr(": line 2"));
  EXPECT_THAT(ErrorOf("[1]"), HasSubstr("expected an object"));
}

TEST_F(MeasurementReaderTest, TheDerivedStepTimeGoesBeforeTheMeasuredOne) {
  const auto rows = Read(Row(R"(, "measured": {"step_time_s": 2}, "derived": {"step_time_s": 3})"));
  EXPECT_DOUBLE_EQ(*rows[0].step_time_s, 3);
}

TEST_F(MeasurementReaderTest, TokensPerSecondMakeAStepTime) {
  // 64 samples of 1024 tokens at 4096 tokens/s on each of 8 GPUs: 2 s.
  const auto rows = Read(Row(R"(, "measured": {"tokens_per_s_per_gpu": 4096})"));
  EXPECT_DOUBLE_EQ(*rows[0].step_time_s, 2);
  EXPECT_TRUE(rows[0].is_for_time);
}

TEST_F(MeasurementReaderTest, ARowSaysWhatItMayBeUsedFor) {
  const auto rows = Read(Row(R"(, "measured": {"step_time_s": 2, "peak_memory_gib": 1,
                                 "memory_class": "reserved"}, "use_for": {"time": false})"));
  EXPECT_FALSE(rows[0].is_for_time);
  EXPECT_TRUE(rows[0].is_for_memory);
  EXPECT_DOUBLE_EQ(*rows[0].peak_memory_bytes, 1073741824.0);
  EXPECT_EQ(rows[0].memory_class, MemoryClass::kReserved);
}

}  // namespace
}  // namespace tessera::planner
