#include "tests/integration/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::testing {

// A line that nobody reads to its end is not clear.
constexpr size_t kMaxLength = 400;

void ExpectRefusal(const std::string& line, base::ExitCode exit_code,
                   const std::vector<std::string>& words, const TemporaryFolder& folder) {
  SCOPED_TRACE("tessera " + line);
  const CommandResult result = RunCommand(line, folder);
  EXPECT_EQ(result.exit_code, exit_code);
  const std::vector<std::string> errors = result.ErrorLines();
  ASSERT_EQ(errors.size(), 1U) << result.err;
  for (const std::string& word : words) EXPECT_THAT(errors[0], ::testing::HasSubstr(word));
  EXPECT_LT(errors[0].size(), kMaxLength) << errors[0];
  EXPECT_TRUE(result.err.ends_with(errors[0] + "\n")) << result.err;
}

}  // namespace tessera::testing
