// Collectives of the NCCL double against sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/cuda_emulation/nccl_ranks.h"

namespace tessera::cuda_emulation::testing {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kNcclCount = 1000;

std::vector<float> Given(int rank, int64_t count, NumberFormat format = NumberFormat::kFloat32) {
  return RandomNumbers(count, static_cast<uint32_t>(100 + rank), format);
}

// The sum of all ranks' numbers, in double.
std::vector<double> Sum(int num_ranks, int64_t count, NumberFormat format) {
  std::vector<double> sum(static_cast<size_t>(count));
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::vector<float> values = Given(rank, count, format);
    for (int64_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

ncclDataType_t TypeOf(NumberFormat format) {
  return format == NumberFormat::kFloat32    ? ncclFloat32
         : format == NumberFormat::kBFloat16 ? ncclBfloat16
                                             : ncclFloat16;
}

constexpr NumberFormat kFormats[] = {NumberFormat::kFloat32, NumberFormat::kBFloat16,
                                     NumberFormat::kFloat16};

// Half a unit in the last place of a number of size 4, the largest sum here.
double HalfUnit(NumberFormat format) {
  return std::ldexp(1.0, format == NumberFormat::kFloat32    ? -21
                         : format == NumberFormat::kBFloat16 ? -7
                                                             : -10);
}

TEST(NcclCollectivesTest, SumsInEveryFormatInPlaceAndOut) {
  const Scope rounds_once = WithNcclReduction(NcclReduction::kAscending);
  for (const NumberFormat format : kFormats) {
    const std::vector<double> expected = Sum(kRanks, kNcclCount, format);
    RunCommunicator(kRanks, [&](Rank& rank) {
      const DeviceArray send(Encode(Given(rank.rank(), kNcclCount, format), format));
      const DeviceArray<char> receive(kNcclCount * SizeBytes(format));
      ASSERT_EQ(ncclAllReduce(send.data(), receive.data(), kNcclCount, TypeOf(format), ncclSum,
                              rank.comm(), rank.stream()),
                ncclSuccess);
      ASSERT_EQ(ncclAllReduce(send.data(), send.data(), kNcclCount, TypeOf(format), ncclAvg,
                              rank.comm(), rank.stream()),
                ncclSuccess);
      Synchronize(rank.stream());
      const auto sums = Decode(receive.Get(), format);
      const auto averages = Decode(send.Get(), format);
      for (int64_t i = 0; i < kNcclCount; ++i) {
        ASSERT_NEAR(sums[i], expected[i], HalfUnit(format)) << i;
        ASSERT_NEAR(averages[i], expected[i] / kRanks, HalfUnit(format)) << i;
      }
    });
  }
}

TEST(NcclCollectivesTest, AddsInAscendingRankOrderAndRoundsOnce) {
  // In bf16, 256 + 1 + 1 is 258 when added in fp32, 256 when each step is rounded to bf16.
  const float values[kRanks] = {256, 1, 1};
  for (const NcclReduction reduction : {NcclReduction::kAscending, NcclReduction::kRing}) {
    const Scope scope = WithNcclReduction(reduction);
    RunCommunicator(kRanks, [&](Rank& rank) {
      const DeviceArray memory(std::vector<uint16_t>(kRanks, ToBFloat16(values[rank.rank()])));
      ASSERT_EQ(ncclAllReduce(memory.data(), memory.data(), kRanks, ncclBfloat16, ncclSum,
                              rank.comm(), rank.stream()),
                ncclSuccess);
      Synchronize(rank.stream());
      const auto sums = memory.Get();
      if (reduction == NcclReduction::kAscending) {
        for (const uint16_t sum : sums) EXPECT_EQ(FromBFloat16(sum), 258);
      } else {  // blocks start at ranks 1, 2, 0: 1 + 1 + 256, 1 + 256 + 1, 256 + 1 + 1
        EXPECT_EQ(FromBFloat16(sums[0]), 258);
        EXPECT_EQ(FromBFloat16(sums[1]), 256);
        EXPECT_EQ(FromBFloat16(sums[2]), 256);
      }
    });
  }
}

TEST(NcclCollectivesTest, TakesMaximumMinimumAndProductOfIntegers) {
  RunCommunicator(kRanks, [](Rank& rank) {
    const int64_t mine = rank.rank() == 1 ? -7 : rank.rank() + 2;  // 2, -7, 4
    for (const auto& [op, expected] : {std::pair(ncclMax, 4), std::pair(ncclMin, -7),
                                       std::pair(ncclProd, -56), std::pair(ncclSum, -1)}) {
      const DeviceArray longs(std::vector<int64_t>(5, mine));
      const DeviceArray ints(std::vector<int32_t>(5, static_cast<int32_t>(mine)));
      ASSERT_EQ(
          ncclAllReduce(longs.data(), longs.data(), 5, ncclInt64, op, rank.comm(), rank.stream()),
          ncclSuccess);
      ASSERT_EQ(
          ncclAllReduce(ints.data(), ints.data(), 5, ncclInt32, op, rank.comm(), rank.stream()),
          ncclSuccess);
      Synchronize(rank.stream());
      EXPECT_EQ(longs.Get(), std::vector<int64_t>(5, expected));
      EXPECT_EQ(ints.Get(), std::vector<int32_t>(5, expected));
    }
  });
}

TEST(NcclCollectivesTest, ScattersSumsByBlocksAndGathersThemBack) {
  for (const NumberFormat format : kFormats) {
    const int64_t block = kNcclCount, all = kRanks * block, size_bytes = SizeBytes(format);
    const std::vector<double> expected = Sum(kRanks, all, format);
    RunCommunicator(kRanks, [&](Rank& rank) {
      const DeviceArray memory(Encode(Given(rank.rank(), all, format), format));
      const DeviceArray<char> out(block * size_bytes), gathered(all * size_bytes);
      char* const mine = memory.data() + rank.rank() * block * size_bytes;
      const auto type = TypeOf(format);
      // Out of place, then in place, then both ways back.
      ASSERT_EQ(ncclReduceScatter(memory.data(), out.data(), block, type, ncclSum, rank.comm(),
                                  rank.stream()),
                ncclSuccess);
      ASSERT_EQ(
          ncclReduceScatter(memory.data(), mine, block, type, ncclSum, rank.comm(), rank.stream()),
          ncclSuccess);
      ASSERT_EQ(ncclAllGather(out.data(), gathered.data(), block, type, rank.comm(), rank.stream()),
                ncclSuccess);
      ASSERT_EQ(ncclAllGather(mine, memory.data(), block, type, rank.comm(), rank.stream()),
                ncclSuccess);
      Synchronize(rank.stream());
      const auto sums = Decode(gathered.Get(), format);
      for (int64_t i = 0; i < all; ++i) ASSERT_NEAR(sums[i], expected[i], HalfUnit(format)) << i;
      EXPECT_EQ(memory.Get(), gathered.Get());
    });
  }
}

TEST(NcclCollectivesTest, BroadcastsFromTheRootWithoutReadingOthers) {
  RunCommunicator(kRanks, [](Rank& rank) {
    const DeviceArray memory(Given(rank.rank(), kNcclCount));
    ASSERT_EQ(ncclBroadcast(rank.rank() == 2 ? memory.data() : nullptr, memory.data(), kNcclCount,
                            ncclFloat32, 2, rank.comm(), rank.stream()),
              ncclSuccess);
    Synchronize(rank.stream());
    EXPECT_EQ(memory.Get(), Given(2, kNcclCount));
  });
}

TEST(NcclCollectivesTest, SplitsByColorAndOrdersByKey) {
  RunCommunicator(4, [](Rank& rank) {
    ncclComm_t part = nullptr;
    const int color = rank.rank() == 3 ? NCCL_SPLIT_NOCOLOR : 5;
    ASSERT_EQ(ncclCommSplit(rank.comm(), color, -rank.rank(), &part, nullptr), ncclSuccess);
    if (rank.rank() == 3) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    int size = 0, new_rank = -1;
    EXPECT_EQ(ncclCommCount(part, &size), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(part, &new_rank), ncclSuccess);
    EXPECT_EQ(size, 3);
    EXPECT_EQ(new_rank, 2 - rank.rank());  // descending by the keys
    const DeviceArray<int32_t> one(std::vector<int32_t>{rank.rank()}), all(3);
    ASSERT_EQ(ncclAllGather(one.data(), all.data(), 1, ncclInt32, part, rank.stream()),
              ncclSuccess);
    Synchronize(rank.stream());
    EXPECT_EQ(all.Get(), (std::vector<int32_t>{2, 1, 0}));
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  });
}

TEST(NcclCollectivesTest, TwoCommunicatorsOnTwoStreamsGoOnBySides) {
  // Rank 0 issues on A then B, rank 1 on B then A: each on streams of their own.
  for (const StreamOrder order : {StreamOrder::kEager, StreamOrder::kAdversarial}) {
    const Scope scope = WithStreamOrder(order);
    RunCommunicator(2, [](Rank& rank) {
      ncclComm_t other = nullptr;
      ASSERT_EQ(ncclCommSplit(rank.comm(), 0, rank.rank(), &other, nullptr), ncclSuccess);
      const TestStream second;
      const DeviceArray<float> x(std::vector<float>(8, 1)), y(std::vector<float>(8, 2));
      const auto reduce = [&](ncclComm_t comm, const DeviceArray<float>& memory,
                              cudaStream_t stream) {
        ASSERT_EQ(
            ncclAllReduce(memory.data(), memory.data(), 8, ncclFloat32, ncclSum, comm, stream),
            ncclSuccess);
      };
      if (rank.rank() == 0) reduce(rank.comm(), x, rank.stream());
      reduce(other, y, second);
      if (rank.rank() == 1) reduce(rank.comm(), x, rank.stream());
      Synchronize(rank.stream());
      Synchronize(second);
      EXPECT_EQ(x.Get(), std::vector<float>(8, 2));
      EXPECT_EQ(y.Get(), std::vector<float>(8, 4));
      EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
    });
  }
}

TEST(NcclCollectivesTest, ReadsBuffersWhenTheStreamReachesIt) {
  const Scope adversarial = WithStreamOrder(StreamOrder::kAdversarial);
  RunCommunicator(2, [](Rank& rank) {
    const DeviceArray memory(std::vector<float>(8, 1));
    ASSERT_EQ(cudaMemsetAsync(memory.data(), 0, 8 * sizeof(float), rank.stream()), cudaSuccess);
    ASSERT_EQ(ncclAllReduce(memory.data(), memory.data(), 8, ncclFloat32, ncclSum, rank.comm(),
                            rank.stream()),
              ncclSuccess);
    Synchronize(rank.stream());
    EXPECT_EQ(memory.Get(), std::vector<float>(8, 0));
  });
}

}  // namespace
}  // namespace tessera::cuda_emulation::testing
