// Communication beside computation: nothing may run before what it reads is written, nor be
// overwritten before it has gone, whatever the order of the streams.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cuda/launchers.h"
#include "tests/cuda_emulation/device_ranks.h"

namespace tessera::engine::testing {
namespace {

using base::DType;
using base::ReduceOp;
using cuda_emulation::StreamOrder;

constexpr int64_t kCount = 500;
constexpr size_t kBytes = kCount * sizeof(float);

class DeviceOverlapTest : public ::testing::TestWithParam<CommKind> {
 protected:
  // In issue order, and in several that are not.
  void Run(int num_ranks,
           const std::function<void(kernels::Backend& backend, Communicator& world)>& body) const {
    for (uint64_t round = 0; round < 5; ++round) {
      // Seeds from 0 on, which is the order that finds most.
      const Scope order = WithStreamOrder(
          round == 0 ? StreamOrder::kEager : StreamOrder::kAdversarial, round == 0 ? 0 : round - 1);
      RunDeviceRanks(num_ranks, GetParam(), kPatienceSeconds,
                     [&](RankDevice& device, Communicator&) {
                       kernels::Backend& backend = device.backend();
                       const OnDevice workspace(
                           backend, static_cast<size_t>(kernels::cuda::kLeastScratchBytes));
                       backend.AttachWorkspace(workspace.data(), kernels::cuda::kLeastScratchBytes);
                       body(backend, device.world());
                     });
    }
  }
};

void ExpectAll(kernels::Backend& backend, const OnDevice& array, float expected) {
  std::vector<float> values(kCount);
  backend.CopyToHost(values.data(), array.data(), kBytes);
  EXPECT_EQ(values, std::vector<float>(kCount, expected));
}

TEST_P(DeviceOverlapTest, ACollectiveReadsWhatTheKernelsBeforeItWrote) {
  Run(2, [](kernels::Backend& backend, Communicator& world) {
    const OnDevice x(backend, kBytes), y(backend, kBytes);
    backend.Fill(x.floats(), kCount, 1);
    backend.Scale(x.floats(), kCount, static_cast<float>(world.rank() + 1));
    world.AllReduce(x.data(), y.data(), kCount, DType::kFloat32, ReduceOp::kSum);
    backend.Scale(y.floats(), kCount, 10);
    ExpectAll(backend, y, 30);
  });
}

TEST_P(DeviceOverlapTest, BucketsReducedBehindComputationArriveByTheirWait) {
  Run(2, [](kernels::Backend& backend, Communicator& world) {
    constexpr int kBuckets = 4;
    std::vector<std::unique_ptr<OnDevice>> buckets;
    std::vector<std::unique_ptr<CommHandle>> handles;
    const OnDevice other(backend, kBytes);
    for (int i = 0; i < kBuckets; ++i) {
      buckets.push_back(std::make_unique<OnDevice>(backend, kBytes));
      backend.Fill(buckets.back()->floats(), kCount, static_cast<float>(i + world.rank()));
      handles.push_back(world.AllReduceAsync(buckets.back()->data(), buckets.back()->data(), kCount,
                                             DType::kFloat32, ReduceOp::kSum));
      backend.Fill(other.floats(), kCount, 7);  // goes on meanwhile
    }
    for (int i = kBuckets - 1; i >= 0; --i) {
      handles[static_cast<size_t>(i)]->Wait();
      backend.Scale(buckets[static_cast<size_t>(i)]->floats(), kCount, 2);
    }
    for (int i = 0; i < kBuckets; ++i) {
      ExpectAll(backend, *buckets[static_cast<size_t>(i)], static_cast<float>(2 * (2 * i + 1)));
    }
  });
}

TEST_P(DeviceOverlapTest, ExchangesBothWaysMeetInAGroup) {
  Run(3, [](kernels::Backend& backend, Communicator& world) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    const OnDevice up(backend, kBytes), down(backend, kBytes);
    const OnDevice from_previous(backend, kBytes), from_next(backend, kBytes);
    for (int round = 0; round < 3; ++round) {
      const auto own = static_cast<float>(10 * world.rank() + round);
      backend.Fill(up.floats(), kCount, own);
      backend.Fill(down.floats(), kCount, -own);
      world.GroupStart();
      world.Send(up.data(), kCount, DType::kFloat32, next, 2 * round);
      world.Recv(from_previous.data(), kCount, DType::kFloat32, previous, 2 * round);
      world.Send(down.data(), kCount, DType::kFloat32, previous, 2 * round + 1);
      world.Recv(from_next.data(), kCount, DType::kFloat32, next, 2 * round + 1);
      world.GroupEnd();
      backend.Fill(up.floats(), kCount, 99);  // it has gone
      backend.Add(from_next.floats(), from_previous.floats(), kCount);
      ExpectAll(backend, from_previous, static_cast<float>(10 * previous - 10 * next));
    }
  });
}

// What is computed between the end of a group and its wait meets neither what goes nor what comes.
TEST_P(DeviceOverlapTest, AGroupOfMessagesTravelsBesideWhatIsComputed) {
  Run(3, [](kernels::Backend& backend, Communicator& world) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    const OnDevice held(backend, kBytes), coming(backend, kBytes), other(backend, kBytes);
    backend.Fill(held.floats(), kCount, static_cast<float>(world.rank()));
    world.GroupStart();
    world.Recv(coming.data(), kCount, DType::kFloat32, previous, 0);
    world.Send(held.data(), kCount, DType::kFloat32, next, 0);
    const auto exchange = world.GroupEndAsync();
    backend.Fill(other.floats(), kCount, 5);
    backend.Add(held.floats(), other.floats(), kCount);
    exchange->Wait();
    backend.Add(coming.floats(), other.floats(), kCount);
    backend.Fill(held.floats(), kCount, 99);  // it has gone
    ExpectAll(backend, other, static_cast<float>(5 + world.rank() + previous));
  });
}

TEST_P(DeviceOverlapTest, MessagesOfTheirOwnArriveInOrder) {
  Run(2, [](kernels::Backend& backend, Communicator& world) {
    const OnDevice first(backend, kBytes), second(backend, kBytes);
    if (world.rank() == 0) {
      backend.Fill(first.floats(), kCount, 1);
      const auto handle = world.SendAsync(first.data(), kCount, DType::kFloat32, 1, 0);
      backend.Fill(second.floats(), kCount, 2);
      world.Send(second.data(), kCount, DType::kFloat32, 1, 1);
      handle->Wait();
      backend.Synchronize();
      return;
    }
    const auto handle = world.RecvAsync(first.data(), kCount, DType::kFloat32, 0, 0);
    world.Recv(second.data(), kCount, DType::kFloat32, 0, 1);
    handle->Wait();
    ExpectAll(backend, first, 1);
    ExpectAll(backend, second, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(Comms, DeviceOverlapTest,
                         ::testing::Values(CommKind::kThread, CommKind::kNccl),
                         [](const auto& comm) { return std::string(ToString(comm.param)); });

}  // namespace
}  // namespace tessera::engine::testing
