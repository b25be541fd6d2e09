// Every collective of both communicators of device memory against serial results: NCCL's and the
// one staged through the host. The streams run in both orders.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/cuda_emulation/device_ranks.h"

namespace tessera::engine::testing {
namespace {

using base::DType;
using base::ReduceOp;
using cuda_emulation::StreamOrder;
using tessera::testing::ReduceSerially;
using tessera::testing::TestElements;

constexpr DType kReducible[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                                DType::kInt32,   DType::kInt64,    DType::kUInt8};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAvg};
constexpr int64_t kCollectiveCounts[] = {0, 1, 7, 1000};

using Setting = std::tuple<CommKind, StreamOrder, int>;

class DeviceCollectivesTest : public ::testing::TestWithParam<Setting> {
 protected:
  DeviceCollectivesTest() : order_(WithStreamOrder(std::get<1>(GetParam()))) {}

  int num_ranks() const { return std::get<2>(GetParam()); }
  void Run(const std::function<void(RankDevice& device)>& body) const {
    RunDeviceRanks(num_ranks(), std::get<0>(GetParam()), kPatienceSeconds,
                   [&](RankDevice& device, Communicator&) { body(device); });
  }
  std::vector<Bytes> Inputs(int64_t count, DType dtype) const {
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      inputs.push_back(TestElements(rank, count, dtype));
    }
    return inputs;
  }

 private:
  const Scope order_;
};

Bytes Slice(const Bytes& bytes, int64_t begin, int64_t size) {
  return {bytes.begin() + begin, bytes.begin() + begin + size};
}

bool IsFloatingPoint(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

Bytes Joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST_P(DeviceCollectivesTest, AllReduceEqualsTheSerialSum) {
  Run([&](RankDevice& device) {
    Communicator& world = device.world();
    kernels::Backend& backend = device.backend();
    for (const DType dtype : kReducible) {
      for (const ReduceOp op : kOps) {
        for (const int64_t count : kCollectiveCounts) {
          // Not promised: NCCL adds in the type itself, where large integers overflow.
          if (op == ReduceOp::kAvg && !IsFloatingPoint(dtype)) continue;
          const std::vector<Bytes> inputs = Inputs(count, dtype);
          const Bytes& own = inputs[static_cast<size_t>(world.rank())];
          const OnDevice input(backend, own), output(backend, own.size()), in_place(backend, own);
          world.AllReduce(input.data(), output.data(), count, dtype, op);
          world.AllReduce(in_place.data(), in_place.data(), count, dtype, op);
          const Bytes expected = ReduceSerially(inputs, dtype, op);
          EXPECT_TRUE(output.Get() == expected)
              << count << ' ' << base::ToString(dtype) << ", op " << static_cast<int>(op);
          EXPECT_TRUE(in_place.Get() == expected) << count << ' ' << base::ToString(dtype);
          EXPECT_TRUE(input.Get() == own);
        }
      }
    }
  });
}

TEST_P(DeviceCollectivesTest, ReduceScatterAndAllGatherAreTheHalvesOfIt) {
  Run([&](RankDevice& device) {
    Communicator& world = device.world();
    kernels::Backend& backend = device.backend();
    for (const DType dtype : kReducible) {
      constexpr int64_t kCount = 33;
      const int64_t part_bytes = kCount * SizeBytes(dtype);
      const int64_t begin = world.rank() * part_bytes;
      const std::vector<Bytes> inputs = Inputs(num_ranks() * kCount, dtype);
      const Bytes sums = ReduceSerially(inputs, dtype, ReduceOp::kSum);
      const Bytes& own = inputs[static_cast<size_t>(world.rank())];
      const OnDevice input(backend, own), part(backend, static_cast<size_t>(part_bytes));
      const OnDevice in_place(backend, own), gathered(backend, own.size());
      world.ReduceScatter(input.data(), part.data(), kCount, dtype, ReduceOp::kSum);
      world.ReduceScatter(in_place.data(), in_place.data() + begin, kCount, dtype, ReduceOp::kSum);
      EXPECT_TRUE(part.Get() == Slice(sums, begin, part_bytes)) << base::ToString(dtype);
      EXPECT_TRUE(Slice(in_place.Get(), begin, part_bytes) == Slice(sums, begin, part_bytes));
      world.AllGather(part.data(), gathered.data(), kCount, dtype);
      world.AllGather(in_place.data() + begin, in_place.data(), kCount, dtype);
      EXPECT_TRUE(gathered.Get() == sums) << base::ToString(dtype);
      EXPECT_TRUE(in_place.Get() == sums) << base::ToString(dtype);
    }
  });
}

TEST_P(DeviceCollectivesTest, DataThatOnlyTravelsMayHaveAnyType) {
  constexpr DType kTypes[] = {DType::kUInt16, DType::kFloat8, DType::kInt64, DType::kFloat32};
  constexpr int64_t kCount = 19;
  Run([&](RankDevice& device) {
    Communicator& world = device.world();
    kernels::Backend& backend = device.backend();
    for (const DType dtype : kTypes) {
      const int64_t part_bytes = kCount * SizeBytes(dtype);
      const std::vector<Bytes> inputs = Inputs(num_ranks() * kCount, dtype);
      const Bytes& own = inputs[static_cast<size_t>(world.rank())];
      const OnDevice input(backend, own), output(backend, own.size());
      world.AllToAll(input.data(), output.data(), kCount, dtype);
      std::vector<Bytes> parts;
      for (const Bytes& from : inputs) {
        parts.push_back(Slice(from, world.rank() * part_bytes, part_bytes));
      }
      EXPECT_TRUE(output.Get() == Joined(parts)) << base::ToString(dtype);
      const int root = world.size() - 1;
      world.Broadcast(input.data(), kCount, dtype, root);
      EXPECT_TRUE(Slice(input.Get(), 0, part_bytes) ==
                  Slice(inputs[static_cast<size_t>(root)], 0, part_bytes));
      world.Barrier();
    }
  });
}

// Rank r sends (2 r + 3 t) % 4 elements to rank t: some none.
int64_t BlockLength(int source, int target) { return (2 * source + 3 * target) % 4; }

TEST_P(DeviceCollectivesTest, BlocksOfAnyLengthReachTheirRanks) {
  Run([&](RankDevice& device) {
    Communicator& world = device.world();
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
      const int rank = world.rank();
      std::vector<int64_t> to, from;
      int64_t num_sent = 0;
      Bytes expected;
      for (int peer = 0; peer < world.size(); ++peer) {
        to.push_back(BlockLength(rank, peer));
        from.push_back(BlockLength(peer, rank));
        num_sent += to.back();
        // The peer's blocks for the ranks before this one come first.
        int64_t begin = 0, length = 0;
        for (int target = 0; target < world.size(); ++target) {
          if (target < rank) begin += BlockLength(peer, target);
          length += BlockLength(peer, target);
        }
        const Bytes block = Slice(TestElements(peer, length, dtype), begin * SizeBytes(dtype),
                                  from.back() * SizeBytes(dtype));
        expected.insert(expected.end(), block.begin(), block.end());
      }
      const OnDevice input(device.backend(), TestElements(rank, num_sent, dtype));
      const OnDevice output(device.backend(), expected.size());
      world.AllToAllV(input.data(), to, output.data(), from, dtype, 1);
      EXPECT_TRUE(output.Get() == expected) << base::ToString(dtype) << ", rank " << rank;
    }
  });
}

TEST_P(DeviceCollectivesTest, GroupsTalkSideBySideOverTheirOwnRanks) {
  Run([&](RankDevice& device) {
    Communicator& world = device.world();
    kernels::Backend& backend = device.backend();
    // Evens and odds, the highest first; then each rank alone; then only rank 0.
    const auto parity = world.Split(world.rank() % 2, -world.rank(), "parity");
    const auto alone = world.Split(world.rank(), 0, "alone");
    const auto first = world.Split(world.rank() == 0 ? 0 : -1, 0, "first");
    EXPECT_EQ(first != nullptr, world.rank() == 0);
    EXPECT_EQ(alone->size(), 1);
    const int num_before = (world.size() - 1 - world.rank()) / 2;
    EXPECT_EQ(parity->rank(), num_before);
    float sum = 0;
    for (int rank = world.rank() % 2; rank < world.size(); rank += 2) sum += rank + 1;
    const OnDevice value(backend, sizeof(float)), copy(backend, sizeof(float));
    const OnDevice largest(backend, sizeof(float));
    const auto own = static_cast<float>(world.rank() + 1);
    backend.CopyToDevice(value.data(), &own, sizeof(own));
    const auto handle =
        parity->AllReduceAsync(value.data(), copy.data(), 1, DType::kFloat32, ReduceOp::kSum);
    world.AllReduce(value.data(), largest.data(), 1, DType::kFloat32, ReduceOp::kMax);
    handle->Wait();
    alone->AllReduce(copy.data(), copy.data(), 1, DType::kFloat32, ReduceOp::kSum);
    float found[2] = {};
    backend.CopyToHost(&found[0], copy.data(), sizeof(float));
    backend.CopyToHost(&found[1], largest.data(), sizeof(float));
    EXPECT_EQ(found[0], sum);
    EXPECT_EQ(found[1], static_cast<float>(world.size()));
    // A group of a group.
    const auto again = parity->Split(0, 0, "again");
    again->AllReduce(copy.data(), copy.data(), 1, DType::kFloat32, ReduceOp::kMin);
    backend.CopyToHost(&found[0], copy.data(), sizeof(float));
    EXPECT_EQ(found[0], sum);
  });
}

std::string SettingName(const ::testing::TestParamInfo<Setting>& setting) {
  const auto& [comm, order, num_ranks] = setting.param;
  return base::Concat(ToString(comm), order == StreamOrder::kEager ? "Eager" : "Adversarial",
                      num_ranks);
}

INSTANTIATE_TEST_SUITE_P(Settings, DeviceCollectivesTest,
                         ::testing::Combine(::testing::Values(CommKind::kThread, CommKind::kNccl),
                                            ::testing::Values(StreamOrder::kEager,
                                                              StreamOrder::kAdversarial),
                                            ::testing::Values(1, 2, 3)),
                         SettingName);

}  // namespace
}  // namespace tessera::engine::testing
