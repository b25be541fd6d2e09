#include "engine/tensor/arena.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

TEST(ArenaTest, BlocksThatStayAndBlocksThatGoLieAtTheTwoEnds) {
  Arena arena(4096);
  EXPECT_EQ(arena.Take(100, Lifetime::kStep), 0);
  EXPECT_EQ(arena.Take(300, Lifetime::kStep), 256);
  EXPECT_EQ(arena.Take(100, Lifetime::kPass), 4096 - 256);
  EXPECT_EQ(arena.Take(257, Lifetime::kPass), 4096 - 256 - 512);
  EXPECT_EQ(arena.Take(4096 - 768 - 768, Lifetime::kStep), 768);  // all that is left
  EXPECT_EQ(arena.Take(1, Lifetime::kStep), std::nullopt);
}

TEST(ArenaTest, GapsThatMeetBecomeOne) {
  Arena arena(1024);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(arena.Take(256, Lifetime::kStep), 256 * i);
  arena.Give(0, 256);
  arena.Give(512, 256);
  EXPECT_EQ(arena.Take(512, Lifetime::kStep), std::nullopt);
  arena.Give(256, 256);
  EXPECT_EQ(arena.Take(768, Lifetime::kStep), 0);
}

TEST(ArenaTest, ABlockThatStaysGoesIntoTheSmallestGap) {
  Arena arena(10 * 256);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(arena.Take(256, Lifetime::kStep));
  arena.Give(0, 768);
  arena.Give(5 * 256, 512);
  EXPECT_EQ(arena.Take(512, Lifetime::kStep), 5 * 256);
}

TEST(ArenaTest, ABlockGivenBackTwiceIsABug) {
  Arena arena(1024);
  ASSERT_EQ(arena.Take(256, Lifetime::kStep), 0);
  arena.Give(0, 256);
  EXPECT_THROW(arena.Give(0, 256), base::CheckFailure);
}

TEST(ArenaTest, BlocksNeverOverlap) {
  constexpr int64_t kCapacity = 1 << 20;
  Arena arena(kCapacity);
  std::map<int64_t, int64_t> taken;  // bytes by offset
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    if (!taken.empty() && random() % 2 == 0) {
      auto block = taken.begin();
      std::advance(block, random() % taken.size());
      arena.Give(block->first, block->second);
      taken.erase(block);
      continue;
    }
    const int64_t bytes = 1 + random() % 30000;
    const auto lifetime = random() % 3 == 0 ? Lifetime::kPass : Lifetime::kStep;
    const std::optional<int64_t> offset = arena.Take(bytes, lifetime);
    if (!offset) continue;
    ASSERT_EQ(*offset % Arena::kAlignmentBytes, 0);
    ASSERT_LE(*offset + bytes, kCapacity);
    const auto after = taken.lower_bound(*offset);
    if (after != taken.end()) {
      ASSERT_LE(*offset + bytes, after->first);
    }
    if (after != taken.begin()) {
      const auto before = std::prev(after);
      ASSERT_LE(before->first + before->second, *offset);
    }
    taken[*offset] = bytes;
  }
  for (const auto& [offset, bytes] : taken) arena.Give(offset, bytes);
  EXPECT_EQ(arena.Take(kCapacity, Lifetime::kStep), 0);
}

}  // namespace
}  // namespace tessera::engine
