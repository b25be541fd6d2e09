// Files from strangers: readers take them or refuse them, and do nothing else.
#include "tests/fuzz/mutation.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/fuzz/fuzz_target.h"

namespace tessera::fuzz {
namespace {

// The bytes, for a failure's message.
std::string Printable(const std::string& bytes) {
  return ::testing::PrintToString(bytes.substr(0, 4000));
}

class MutationTest : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(MutationTest, SeedsAreTaken) {
  for (const std::string& seed : GetParam().seeds) {
    EXPECT_EQ(GetParam().refusal(seed), "") << Printable(seed);
  }
}

TEST_P(MutationTest, WhatIsBrokenIsTakenOrRefusedAndNothingElse) {
  // TESSERA_NUM_MUTATIONS=1000000 looks longer.
  const char* const wanted = std::getenv("TESSERA_NUM_MUTATIONS");
  const int64_t num_mutations = wanted != nullptr ? std::atoll(wanted) : 600;
  std::mt19937_64 random(1);
  int64_t num_refused = 0;
  for (int64_t i = 0; i < num_mutations; ++i) {
    const std::vector<std::string>& seeds = GetParam().seeds;
    const std::string bytes = Mutate(seeds[random() % seeds.size()], random);
    try {
      num_refused += GetParam().refusal(bytes).empty() ? 0 : 1;
    } catch (const std::exception& error) {
      FAIL() << "mutation " << i << ": " << error.what() << "\n" << Printable(bytes);
    }
  }
  // Else the changes changed nothing that counts.
  EXPECT_GT(num_refused, num_mutations / 4);
}

std::string TargetName(const ::testing::TestParamInfo<FuzzTarget>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, MutationTest, ::testing::ValuesIn(AllTargets()), TargetName);

}  // namespace
}  // namespace tessera::fuzz
