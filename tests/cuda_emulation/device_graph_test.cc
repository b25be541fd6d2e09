// Graphs of a rank's device: kernels, copies and collectives together, and what ends them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cost_model/base/check.h"
#include "tests/cuda_emulation/device_ranks.h"

namespace tessera::engine::testing {
namespace {

using base::DType;
using base::ReduceOp;
using ::testing::HasSubstr;

constexpr int64_t kNumElements = 64;
constexpr size_t kNumBytes = kNumElements * sizeof(float);
constexpr int64_t kGraphWorkspaceBytes = 8 << 20;

// A rank's numbers on its device, and where they come from.
class Numbers {
 public:
  explicit Numbers(kernels::Backend& backend)
      : backend_(backend),
        workspace_(backend, size_t{kGraphWorkspaceBytes}),
        memory_(backend, kNumBytes),
        pinned_(static_cast<float*>(backend.AllocatePinned(kNumBytes))) {
    backend.AttachWorkspace(workspace_.data(), kGraphWorkspaceBytes);
  }
  ~Numbers() { backend_.FreePinned(pinned_, kNumBytes); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  void Set(float value) { std::fill_n(pinned_, kNumElements, value); }
  void Upload() { backend_.CopyFromPinned(memory_.data(), pinned_, kNumBytes); }
  void Double() { backend_.Scale(memory_.floats(), kNumElements, 2); }
  void Sum(Communicator& comm) {
    comm.AllReduce(memory_.data(), memory_.data(), kNumElements, DType::kFloat32, ReduceOp::kSum);
  }
  std::vector<float> Get() const {
    std::vector<float> values(kNumElements);
    backend_.CopyToHost(values.data(), memory_.data(), kNumBytes);
    return values;
  }

 private:
  kernels::Backend& backend_;
  const OnDevice workspace_, memory_;
  float* const pinned_;
};

TEST(DeviceGraphTest, ALaunchDoesWhatTheCallsWouldWithNewInputs) {
  for (const auto order :
       {cuda_emulation::StreamOrder::kEager, cuda_emulation::StreamOrder::kAdversarial}) {
    const Scope scope = WithStreamOrder(order);
    RunDeviceRanks(2, CommKind::kNccl, kPatienceSeconds, [](RankDevice& device, Communicator&) {
      Numbers numbers(device.backend());
      const auto group = device.world().Split(0, 0, "group");
      numbers.Set(1);
      const auto graph = device.backend().Capture([&] {
        numbers.Upload();
        numbers.Double();
        numbers.Sum(device.world());
        numbers.Double();
        numbers.Sum(*group);
      });
      for (const float value : {3, 5}) {
        numbers.Set(value);
        device.backend().Launch(*graph);
        EXPECT_EQ(numbers.Get(), std::vector<float>(kNumElements, 16 * value));
      }
      numbers.Sum(device.world());  // what is called between launches comes in between
      EXPECT_EQ(numbers.Get(), std::vector<float>(kNumElements, 160));
    });
  }
}

TEST(DeviceGraphTest, MarksWithinAGraphHaveTheTimesOfEveryLaunch) {
  RunDeviceRanks(1, CommKind::kThread, kPatienceSeconds, [](RankDevice& device, Communicator&) {
    kernels::Backend& backend = device.backend();
    Numbers numbers(backend);
    numbers.Set(1);
    EXPECT_EQ(backend.Mark(), 0U);
    const auto graph = backend.Capture([&] {
      numbers.Upload();
      EXPECT_EQ(backend.Mark(), 1U);
      numbers.Double();
      EXPECT_EQ(backend.Mark(), 2U);
    });
    for (int launch = 0; launch < 3; ++launch) {
      if (launch > 0) {
        EXPECT_EQ(backend.Mark(), 0U);
      }
      backend.Launch(*graph);
      EXPECT_EQ(backend.Mark(), 3U);
      const std::vector<double> times_s = backend.TakeMarks();
      ASSERT_EQ(times_s.size(), 4U);
      EXPECT_TRUE(std::is_sorted(times_s.begin(), times_s.end())) << "launch " << launch;
    }
    EXPECT_THROW(backend.Launch(*graph), base::CheckFailure) << "behind no mark";
  });
}

TEST(DeviceGraphTest, WhatWouldHappenOnceIsRefusedAndEndsTheCapture) {
  RunDeviceRanks(1, CommKind::kThread, kPatienceSeconds, [](RankDevice& device, Communicator&) {
    kernels::Backend& backend = device.backend();
    Numbers numbers(backend);
    float value = 0;
    const OnDevice memory(backend, sizeof(value));
    const std::vector<std::function<void()>> calls = {
        [&] { backend.CopyToDevice(memory.data(), &value, sizeof(value)); },
        [&] { backend.CopyToHost(&value, memory.data(), sizeof(value)); },
        [&] { backend.Synchronize(); }, [&] { backend.TakeMarks(); },
        [&] { backend.Capture([] {}); }};
    for (const auto& call : calls) EXPECT_THROW(backend.Capture(call), base::CheckFailure);
    EXPECT_THROW(backend.Capture([&] { backend.Allocate(64); }), base::SystemError);
    EXPECT_THROW(backend.Capture([] { throw std::runtime_error("boom"); }), std::runtime_error);
    numbers.Set(4);  // all is as before
    numbers.Upload();
    EXPECT_EQ(numbers.Get(), std::vector<float>(kNumElements, 4));
  });
}

// The watchdog sees a launch as one operation of each group that has a part in it.
TEST(DeviceGraphTest, ARankThatDoesNotLaunchIsNamedAndEndsTheOthers) {
  std::atomic<bool> one_has_failed{false};
  const std::string failure =
      DeviceFailureOf(2, CommKind::kNccl, 1, [&](RankDevice& device, Communicator& host_world) {
        Numbers numbers(device.backend());
        const auto group = device.world().Split(0, 0, "group");
        numbers.Set(1);
        numbers.Upload();
        const auto graph = device.backend().Capture([&] {
          numbers.Sum(device.world());
          numbers.Sum(*group);
        });
        host_world.Barrier();  // no launch waits for long
        device.backend().Launch(*graph);
        device.backend().Synchronize();
        if (host_world.rank() == 1) {
          while (!one_has_failed) std::this_thread::yield();
          return;
        }
        device.world().BeginStep(2);
        try {
          device.backend().Launch(*graph);
          device.backend().Synchronize();
        } catch (const base::CommError&) {
          one_has_failed = true;
          throw;
        }
      });
  EXPECT_THAT(failure, HasSubstr("rank 0, step 2: graph #"));
  EXPECT_THAT(failure, HasSubstr("timed out after 1 s; rank 1 has not posted it"));
}

TEST(DeviceGraphTest, ARankThatFailsWhileOthersCaptureEndsThem) {
  try {
    RunDeviceRanks(3, CommKind::kNccl, kPatienceSeconds,
                   [](RankDevice& device, Communicator& host_world) {
                     Numbers numbers(device.backend());
                     if (host_world.rank() == 2) throw std::runtime_error("boom");
                     while (true) {
                       device.backend().Capture([&] { numbers.Sum(device.world()); });
                     }
                   });
    ADD_FAILURE() << "no failure";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "boom");
  }
}

}  // namespace
}  // namespace tessera::engine::testing
