#include "engine/train/event_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/train/tensorboard.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

// RFC 3720, appendix B.4, and the usual check value.
TEST(EventFileTest, Crc32cIsThatOfTheStandard) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(Crc32c(ascending), 0x46DD794EU);
  EXPECT_EQ(Crc32c(std::string("123456789")), 0xE3069283U);
  EXPECT_EQ(Crc32c(std::string()), 0U);
}

// A file of TensorFlow begins with the event of its version, 24 bytes: the length's masked checksum
// is a3 7f 4b 22.
TEST(EventFileTest, ARecordIsFramedAsTensorFlowFramesIt) {
  const std::string version = FileVersionEvent(0);
  EXPECT_EQ(version, std::string("\x09\0\0\0\0\0\0\0\0\x1a\x0d"
                                 "brain.Event:2",
                                 24));
  const std::string record = TfRecord(version);
  ASSERT_EQ(record.size(), 8U + 4 + 24 + 4);
  EXPECT_EQ(record.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  EXPECT_EQ(record.substr(12, 24), version);
}

// Worked out by hand from event.proto and summary.proto: wall_time 1.5 (field 1, double), step 300
// (field 2, two bytes of varint), summary (field 5) of one value (field 1) with its tag (field 1)
// and simple_value 2 (field 2, float).
TEST(EventFileTest, ScalarsAreMessagesOfTheSchema) {
  EXPECT_EQ(ScalarsEvent(1.5, 300, {{"a/b", 2.0F}}), std::string("\x09\0\0\0\0\0\0\xf8\x3f"
                                                                 "\x10\xac\x02"
                                                                 "\x2a\x0c\x0a\x0a\x0a\x03"
                                                                 "a/b"
                                                                 "\x15\0\0\0\x40",
                                                                 9 + 3 + 2 + 2 + 2 + 3 + 5));
}

TEST(EventFileTest, RunsOfOneFolderHaveFilesOfTheirOwn) {
  const test::TestFolder folder;
  EventFile first(folder.Path("logs/run"));
  EventFile second(folder.Path("logs/run"));
  EXPECT_NE(first.path(), second.path());
  const auto before = std::filesystem::file_size(first.path());
  first.Write(1, {{"loss", 2.0F}});
  EXPECT_GT(std::filesystem::file_size(first.path()), before);
  EXPECT_EQ(std::filesystem::file_size(second.path()), before);
}

TEST(EventFileTest, AFolderThatCannotBeIsToldByItsName) {
  const test::TestFolder folder;
  const std::string file = folder.Write("file", "x");
  EXPECT_THROW(EventFile(file + "/logs"), base::SystemError);
}

TEST(TensorboardTest, AStepHasAValidationLossOnlyWhereItWasMeasured) {
  StepRow row;
  row.result.loss = 3.5;
  const auto has = [&](const std::string& tag) {
    for (const Scalar& scalar : ScalarsOf(row)) {
      if (scalar.tag == tag) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("train/loss"));
  EXPECT_FALSE(has("validation/loss"));
  row.validation_loss = 3.25;
  EXPECT_TRUE(has("validation/loss"));
}

}  // namespace
}  // namespace tessera::engine
