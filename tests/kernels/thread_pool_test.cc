#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <stdexcept>

namespace tessera::kernels {
namespace {

TEST(ThreadPoolTest, EveryTaskRunsOnce) {
  for (const int num_threads : {1, 2, 5}) {
    ThreadPool pool(num_threads);
    for (const int64_t num_tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(num_tasks);
      pool.ForEachTask(num_tasks, [&](int thread, int64_t task) {
        ASSERT_LT(thread, num_threads);
        runs[task].fetch_add(1);
      });
      for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPoolTest, ManyRoundsInARowLoseNoWork) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    pool.ForEachTask(5, [&](int, int64_t task) { sum.fetch_add(task); });
  }
  EXPECT_EQ(sum.load(), kRounds * 10);
}

TEST(ThreadPoolTest, RangesPartitionTheWholeAtAlignedBorders) {
  ThreadPool pool(3);
  for (const int64_t n : {0, 1, 15, 16, 17, 1000, 99999}) {
    std::mutex mutex;
    std::set<std::pair<int64_t, int64_t>> ranges;
    pool.ForRanges(n, 100, 16, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex);
      ranges.emplace(begin, end);
    });
    int64_t covered = 0;
    for (const auto& [begin, end] : ranges) {
      EXPECT_EQ(begin, covered);
      EXPECT_EQ(begin % 16, 0);
      EXPECT_TRUE(end - begin >= 100 || end == n) << begin << " to " << end << " of " << n;
      covered = end;
    }
    EXPECT_EQ(covered, n);
  }
}

TEST(ThreadPoolTest, AnExceptionOfAnyThreadReachesTheCaller) {
  ThreadPool pool(3);
  for (int64_t failing = 0; failing < 10; ++failing) {
    EXPECT_THROW(pool.ForEachTask(10,
                                  [&](int, int64_t task) {
                                    if (task == failing) throw std::runtime_error("task");
                                  }),
                 std::runtime_error);
  }
  std::atomic<int> runs = 0;
  pool.ForEachTask(10, [&](int, int64_t) { ++runs; });
  EXPECT_EQ(runs.load(), 10);
}

}  // namespace
}  // namespace tessera::kernels
