#include "engine/comm/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<std::string> LinesOf(const FlightRecorder& recorder) {
  const std::string path =
      ::testing::TempDir() + base::Concat("tessera_flight_recorder_", getpid());
  EXPECT_TRUE(recorder.Write(path, 3, "rank 1 is gone"));
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::filesystem::remove(path);
  return lines;
}

CommOp Barrier(int64_t number) {
  CommOp op = {.number = number};
  op.header.kind = CollectiveKind::kBarrier;
  return op;
}

TEST(FlightRecorderTest, TellsWhatIsOverAndWhatIsNot) {
  FlightRecorder recorder;
  const int64_t barrier = recorder.Begin(7, "tp{2,3}", Barrier(5));
  recorder.Begin(7, "pp{1,3}", {.kind = CommOp::Kind::kSend, .peer = 1, .tag = 4, .number = 6});
  recorder.End(barrier);
  const std::vector<std::string> lines = LinesOf(recorder);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], "rank 3: rank 1 is gone");
  EXPECT_THAT(lines[2], HasSubstr("0\t7\ttp{2,3}\tbarrier #5\tbarrier\t"));
  EXPECT_THAT(lines[2], Not(HasSubstr("not over")));
  EXPECT_THAT(lines[3], HasSubstr("1\t7\tpp{1,3}\tsend #6 to rank 1, tag 4\t"));
  EXPECT_THAT(lines[3], EndsWith("not over"));
}

TEST(FlightRecorderTest, KeepsTheLast256) {
  FlightRecorder recorder;
  const int64_t first = recorder.Begin(1, "world", Barrier(1));
  for (int64_t number = 2; number <= 300; ++number) {
    recorder.End(recorder.Begin(1, "world", Barrier(number)));
  }
  recorder.End(first);  // forgotten by now; whose place it had is as it was
  const std::vector<std::string> lines = LinesOf(recorder);
  ASSERT_EQ(lines.size(), 2U + 256U);
  EXPECT_THAT(lines[2], HasSubstr("barrier #45\t"));
  EXPECT_THAT(lines.back(), HasSubstr("barrier #300\t"));
}

TEST(FlightRecorderTest, SaysWhereTheDiskRefuses) {
  EXPECT_FALSE(FlightRecorder().Write("/proc/no/such/file", 0, ""));
}

}  // namespace
}  // namespace tessera::engine
