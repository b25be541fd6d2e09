#include "engine/data/ordered_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tessera::engine {
namespace {

TEST(OrderedWorkTest, ResultsComeOutInTheOrderOfTheItems) {
  for (const int num_threads : {1, 2, 5}) {
    std::vector<size_t> taken;
    std::atomic<int> num_workers = 0;
    OrderedWork<size_t>(100).Run(
        num_threads,
        [&] {
          ++num_workers;
          return [](size_t item) {
            // Early items take longest.
            if (item % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            return item * item;
          };
        },
        [&](size_t result) { taken.push_back(result); });
    ASSERT_EQ(taken.size(), 100u);
    for (size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(taken[i], i * i);
    EXPECT_EQ(num_workers, num_threads);
  }
  OrderedWork<int>(0).Run(
      3, [] { return [](size_t) { return 0; }; }, [](int) { FAIL(); });
}

TEST(OrderedWorkTest, TheFirstItemThatFailsIsTheOneThatIsTold) {
  std::vector<size_t> taken;
  const auto run = [&] {
    OrderedWork<size_t>(50).Run(
        4,
        [] {
          return [](size_t item) {
            // The later failure happens first.
            if (item == 20) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            if (item == 20 || item == 22) throw std::runtime_error(std::to_string(item));
            return item;
          };
        },
        [&](size_t result) { taken.push_back(result); });
  };
  try {
    run();
    FAIL() << "no failure";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "20");
  }
  EXPECT_EQ(taken.size(), 20u);
}

TEST(OrderedWorkTest, WhereTakingFailsNoFurtherItemsAreBegun) {
  std::atomic<size_t> num_begun = 0;
  const auto run = [&] {
    OrderedWork<size_t>(10'000).Run(
        2,
        [&] {
          return [&](size_t item) {
            ++num_begun;
            return item;
          };
        },
        [](size_t result) {
          if (result == 10) throw std::runtime_error("full");
        });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_LE(num_begun, 11u + 4u);
}

TEST(OrderedWorkTest, FewResultsWaitForASlowItem) {
  std::atomic<size_t> num_begun = 0;
  std::atomic<bool> first_is_done = false;
  size_t num_begun_before = 0;
  OrderedWork<size_t>(1000).Run(
      3,
      [&] {
        return [&](size_t item) {
          ++num_begun;
          if (item == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            num_begun_before = num_begun;
            first_is_done = true;
          }
          return item;
        };
      },
      [](size_t) {});
  EXPECT_TRUE(first_is_done);
  EXPECT_LE(num_begun_before, 6u);
}

}  // namespace
}  // namespace tessera::engine
