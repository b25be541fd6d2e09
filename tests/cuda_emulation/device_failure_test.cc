// What ranks on GPUs see when one of them fails, is late, or does something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/cuda_emulation/device_ranks.h"

namespace tessera::engine::testing {
namespace {

using base::DType;
using base::ReduceOp;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kImpatienceSeconds = 0.3;

void AllReduceOne(RankDevice& device, Communicator& comm) {
  const OnDevice value(device.backend(), sizeof(float));
  const float one = 1;
  device.backend().CopyToDevice(value.data(), &one, sizeof(one));
  comm.AllReduce(value.data(), value.data(), 1, DType::kFloat32, ReduceOp::kSum);
  device.backend().Synchronize();
}

// Runs `wait` on all ranks but the last, which stays alive and silent until one has failed.
std::string FailureWithLateRank(
    int num_ranks, double timeout_s,
    const std::function<void(RankDevice& device, Communicator& world)>& wait,
    const std::function<void(Communicator& world)>& prepare = [](Communicator&) {}) {
  std::atomic<bool> one_has_failed{false};
  return DeviceFailureOf(num_ranks, CommKind::kNccl, timeout_s,
                         [&](RankDevice& device, Communicator& host_world) {
                           prepare(device.world());
                           if (host_world.rank() == num_ranks - 1) {
                             while (!one_has_failed) std::this_thread::yield();
                             return;
                           }
                           try {
                             wait(device, device.world());
                           } catch (const base::CommError&) {
                             one_has_failed = true;
                             throw;
                           }
                         });
}

TEST(DeviceFailureTest, ATimeoutNamesRankStepOperationGroupAndWhoIsMissing) {
  const std::string failure =
      FailureWithLateRank(3, kImpatienceSeconds, [](RankDevice& device, Communicator& world) {
        device.world().BeginStep(7);
        AllReduceOne(device, world);
      });
  EXPECT_THAT(failure, AnyOf(StartsWith("rank 0, step 7: "), StartsWith("rank 1, step 7: ")));
  EXPECT_THAT(failure, HasSubstr("all-reduce #0 of world timed out after 0.3 s; "
                                 "rank 2 has not posted it"));
}

TEST(DeviceFailureTest, ATimeoutInASubgroupSpeaksOfRanksOfTheWorld) {
  const std::string failure = FailureWithLateRank(
      4, kImpatienceSeconds,
      [](RankDevice& device, Communicator& world) {
        const auto half = world.Split(world.rank() / 2, 0, "half");
        if (world.rank() >= 2) AllReduceOne(device, *half);
      },
      [](Communicator& world) {
        // The late rank takes part in the split.
        if (world.rank() == world.size() - 1) world.Split(world.rank() / 2, 0, "half");
      });
  EXPECT_THAT(failure, HasSubstr("rank 2: all-reduce #0 of half timed out after 0.3 s; "
                                 "rank 3 has not posted it"));
}

TEST(DeviceFailureTest, WhatNcclFindsEndsTheWaitAndIsTold) {
  const Scope injected = cuda_emulation::WithNcclFailure(
      {.communicator = "world", .rank = 1, .operation = 0, .async_error = ncclRemoteError});
  const std::string failure = DeviceFailureOf(
      2, CommKind::kNccl, kPatienceSeconds,
      [](RankDevice& device, Communicator&) { AllReduceOne(device, device.world()); });
  EXPECT_THAT(failure, HasSubstr("all-reduce #0 of world"));
  EXPECT_THAT(failure, HasSubstr(ncclGetErrorString(ncclRemoteError)));
}

TEST(DeviceFailureTest, AnAbortEndsTheWaitsOfTheOthers) {
  const std::string failure = DeviceFailureOf(2, CommKind::kNccl, kPatienceSeconds,
                                              [](RankDevice& device, Communicator& host_world) {
                                                if (host_world.rank() == 0)
                                                  return AllReduceOne(device, device.world());
                                                device.world().Abort("enough of this");
                                              });
  EXPECT_THAT(failure, HasSubstr("rank 0: "));
  EXPECT_THAT(failure, HasSubstr("aborted: enough of this"));
}

TEST(DeviceFailureTest, TheFirstFailureComesOutAndNotWhatItLeadsTo) {
  for (const CommKind comm : {CommKind::kNccl, CommKind::kThread}) {
    try {
      RunDeviceRanks(3, comm, kPatienceSeconds, [](RankDevice& device, Communicator& host_world) {
        if (host_world.rank() == 1) throw std::runtime_error("boom");
        AllReduceOne(device, device.world());
      });
      ADD_FAILURE() << "no failure";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "boom");
    }
  }
}

TEST(DeviceFailureTest, ACallThatNcclRefusesIsNamed) {
  std::atomic<bool> first_has_posted{false};
  std::atomic<bool> second_has_failed{false};
  const std::string failure = DeviceFailureOf(
      2, CommKind::kNccl, kPatienceSeconds, [&](RankDevice& device, Communicator& host_world) {
        const OnDevice values(device.backend(), Bytes(64));
        const auto all_reduce = [&](int64_t count) {
          device.world().AllReduce(values.data(), values.data(), count, DType::kFloat32,
                                   ReduceOp::kSum);
        };
        if (host_world.rank() == 0) {
          all_reduce(8);
          first_has_posted = true;
          while (!second_has_failed) std::this_thread::yield();
          return device.backend().Synchronize();
        }
        while (!first_has_posted) std::this_thread::yield();
        try {
          all_reduce(9);
        } catch (const base::CommError&) {
          second_has_failed = true;
          throw;
        }
      });
  cuda_emulation::ResetDevices();  // the double lets the other rank's device crash
  // The rank that is refused and the one that this strands find out side by side.
  EXPECT_THAT(failure, HasSubstr(": all-reduce #0 of world: "));
  EXPECT_THAT(failure, HasSubstr(ncclGetErrorString(ncclInvalidUsage)));
}

TEST(DeviceFailureTest, RanksShareAGpuStagedButNotUnderNccl) {
  const Scope one_device = cuda_emulation::WithDeviceCount(1);
  std::string problem;
  try {
    RunDeviceRanks(2, CommKind::kNccl, kPatienceSeconds, [](RankDevice&, Communicator&) {});
  } catch (const base::ConfigError& error) {
    problem = error.what();
  }
  EXPECT_EQ(problem,
            "--comm: found nccl, expected thread, which lets ranks share a GPU: NCCL wants one for "
            "each rank, and 2 ranks have 1 here");
  EXPECT_EQ(DeviceFailureOf(
                2, CommKind::kThread, kPatienceSeconds,
                [](RankDevice& device, Communicator&) { AllReduceOne(device, device.world()); }),
            "no failure");
  const Scope no_device = cuda_emulation::WithDeviceCount(0);
  EXPECT_THROW(
      RunDeviceRanks(1, CommKind::kThread, kPatienceSeconds, [](RankDevice&, Communicator&) {}),
      base::ConfigError);
}

}  // namespace
}  // namespace tessera::engine::testing
