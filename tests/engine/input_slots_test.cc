#include "engine/train/input_slots.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/counting_backend.h"

namespace tessera::engine {
namespace {

constexpr int64_t kSlotTokens = 5;

TEST(InputSlotsTest, EachMicrobatchKeepsItsPlaceAndIsLoadedOnceAStep) {
  tessera::testing::CountingBackend backend;
  InputSlots slots(backend, 3, kSlotTokens);
  int num_loads = 0;
  std::vector<int32_t> loaded(2 * kSlotTokens);  // as a loader's own memory: overwritten each time
  const auto get = [&](int64_t consumed_samples, int microbatch) {
    return slots.Get(consumed_samples, microbatch, [&] {
      ++num_loads;
      for (size_t i = 0; i < loaded.size(); ++i) {
        loaded[i] = static_cast<int32_t>(1000 * consumed_samples + 100 * microbatch + i);
      }
      return Microbatch{.tokens = loaded.data(), .labels = loaded.data() + kSlotTokens};
    });
  };
  std::vector<Microbatch> places;
  for (const int64_t consumed_samples : {0, 8, 16}) {
    for (const int microbatch : {0, 1, 2, 1, 0}) {
      const Microbatch found = get(consumed_samples, microbatch);
      if (places.size() < 3) places.push_back(found);
      EXPECT_EQ(found.tokens, places[static_cast<size_t>(microbatch)].tokens);
      EXPECT_EQ(found.labels, places[static_cast<size_t>(microbatch)].labels);
    }
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      const Microbatch& place = places[static_cast<size_t>(microbatch)];
      const int64_t first = 1000 * consumed_samples + 100 * microbatch;
      EXPECT_EQ(place.tokens[0], first);
      EXPECT_EQ(place.tokens[kSlotTokens - 1], first + kSlotTokens - 1);
      EXPECT_EQ(place.labels[0], first + kSlotTokens);
      EXPECT_EQ(place.labels[kSlotTokens - 1], first + 2 * kSlotTokens - 1);
    }
  }
  EXPECT_EQ(num_loads, 9);
}

}  // namespace
}  // namespace tessera::engine
