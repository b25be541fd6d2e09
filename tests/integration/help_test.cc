// Help that shows how a command is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

TEST(HelpTest, EveryCommandShowsExamplesOfItself) {
  const TemporaryFolder folder;
  for (const std::string command :
       {"plan", "estimate", "what-if", "validate", "config", "config list", "config show",
        "config import", "config emit", "train", "profile", "data", "data build", "data inspect",
        "checkpoint", "checkpoint inspect", "checkpoint verify", "checkpoint convert"}) {
    const std::string help = RunWell(command + " --help", folder);
    const size_t examples = help.find("Examples:");
    ASSERT_NE(examples, std::string::npos) << command;
    EXPECT_THAT(help.substr(examples), HasSubstr("tessera " + command)) << command;
    EXPECT_THAT(help.substr(0, examples), HasSubstr("--help")) << command;
  }
}

TEST(HelpTest, TheFrontDoorNamesEveryCommand) {
  const TemporaryFolder folder;
  const std::string help = RunWell("--help", folder);
  for (const char* command : {"plan", "estimate", "what-if", "validate", "config", "train",
                              "profile", "data", "checkpoint"}) {
    EXPECT_THAT(help, ::testing::ContainsRegex("\n  " + std::string(command) + " +[A-Z]"));
  }
}

TEST(HelpTest, CommandsThatPrintResultsTakeFormatAndQuiet) {
  const TemporaryFolder folder;
  for (const std::string command :
       {"plan", "estimate", "what-if", "validate", "train", "profile", "data build", "data inspect",
        "checkpoint inspect", "checkpoint verify"}) {
    const std::string help = RunWell(command + " --help", folder);
    EXPECT_THAT(help, HasSubstr("--format")) << command;
    EXPECT_THAT(help, HasSubstr("--quiet")) << command;
  }
}

}  // namespace
}  // namespace tessera::testing
