#include "engine/train/core_binding.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

namespace tessera::engine {
namespace {

std::set<int> CoresOfThisThread() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  EXPECT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  std::set<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable)) cores.insert(core);
  }
  return cores;
}

// What a rank may use after it has bound itself.
std::set<int> CoresOfRank(int rank, int num_ranks, int threads_per_rank) {
  std::set<int> cores;
  std::thread([&] {
    BindToOwnCores(rank, num_ranks, threads_per_rank);
    cores = CoresOfThisThread();
  }).join();
  return cores;
}

TEST(CoreBindingTest, RanksThatTakeUpTheMachineShareItsCoresOut) {
  const std::set<int> all = CoresOfThisThread();
  const int num_cores = static_cast<int>(all.size());
  std::set<int> taken;
  for (int rank = 0; rank < num_cores; ++rank) {
    const std::set<int> own = CoresOfRank(rank, num_cores, 1);
    EXPECT_EQ(own.size(), 1U);
    taken.insert(own.begin(), own.end());
  }
  EXPECT_EQ(taken, all);
  EXPECT_EQ(CoresOfThisThread(), all) << "of a thread that was not bound";
}

TEST(CoreBindingTest, RanksThatOutnumberTheCoresMoveFreely) {
  const std::set<int> all = CoresOfThisThread();
  EXPECT_EQ(CoresOfRank(0, static_cast<int>(all.size()) + 1, 1), all);
}

TEST(CoreBindingTest, AJobThatLeavesCoresToOthersMovesFreely) {
  const std::set<int> all = CoresOfThisThread();
  if (all.size() < 2) GTEST_SKIP() << "one core";
  EXPECT_EQ(CoresOfRank(0, 1, static_cast<int>(all.size()) - 1), all);
}

}  // namespace
}  // namespace tessera::engine
