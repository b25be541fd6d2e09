// Files from strangers: readers take them or refuse them, and do nothing else.
#include "tests/fuzz/mutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
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

// A number or a word of a text that stands where a value does.
bool IsScalarAt(const std::string& text, size_t place) {
  const char before = text[place - 1];
  const bool begins = before == ' ' || before == ':' || before == '[' || before == ',';
  return begins && (std::isalnum(static_cast<unsigned char>(text[place])) != 0);
}

// What walks through a document level by level must not go down with its stack.
TEST_P(MutationTest, NestingIsTakenOrRefusedHoweverDeep) {
  constexpr size_t kNumLevels = 100'000;
  constexpr size_t kMaxPlaces = 30;
  std::string keys;
  for (size_t i = 0; i < kNumLevels; ++i) keys += "{\"a\":";
  const std::string arrays = std::string(kNumLevels, '[') + std::string(kNumLevels, ']');
  const std::string objects = keys + "1" + std::string(kNumLevels, '}');
  size_t num_places = 0;
  for (const std::string& seed : GetParam().seeds) {
    GetParam().refusal(arrays);
    GetParam().refusal(objects);
    for (size_t i = 1; i < seed.size() && num_places < kMaxPlaces; ++i) {
      if (!IsScalarAt(seed, i)) continue;
      const size_t end = std::min(seed.find_first_of(" ,]}\n", i), seed.size());
      GetParam().refusal(seed.substr(0, i) + (i % 2 == 0 ? arrays : objects) + seed.substr(end));
      ++num_places;
    }
  }
}

std::string TargetName(const ::testing::TestParamInfo<FuzzTarget>& info) { return info.param.name; }

FuzzTarget TargetNamed(const std::string& name) {
  for (FuzzTarget& target : AllTargets()) {
    if (target.name == name) return target;
  }
  throw std::runtime_error("no target " + name);
}

TEST(TokenizerJsonTest, AHighIdTakesNoMemoryForThoseBelowIt) {
  const FuzzTarget target = TargetNamed("tokenizer_json");
  std::string json = target.seeds[0];
  for (size_t at = json.find("258"); at != std::string::npos; at = json.find("258")) {
    json.replace(at, 3, "16777215");
  }
  EXPECT_EQ(target.refusal(json), "");  // bounded_memory.cc refuses more than 64 MiB at once
}

INSTANTIATE_TEST_SUITE_P(All, MutationTest, ::testing::ValuesIn(AllTargets()), TargetName);

}  // namespace
}  // namespace tessera::fuzz
