// Every collective, element type and group size against serial results, bit by bit.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/comm_backends.h"
#include "tests/testing/typed_data.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;
using testing::TestElements;
using testing::ZeroElements;

class CommunicatorCollectivesTest : public testing::OnEachBackend {
 protected:
  // Of connections there are as many as pairs of ranks.
  std::vector<int> GroupSizes() const {
    return has_processes() ? std::vector<int>{1, 2, 3, 5} : std::vector<int>{1, 2, 3, 4, 8};
  }
};

constexpr int64_t kCounts[] = {0, 1, 7, 1000, 100'003};
constexpr DType kReducible[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                                DType::kInt32,   DType::kInt64,    DType::kUInt8};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAvg};

std::vector<testing::Bytes> InputsOf(int num_ranks, int64_t count, DType dtype) {
  std::vector<testing::Bytes> inputs;
  for (int rank = 0; rank < num_ranks; ++rank) inputs.push_back(TestElements(rank, count, dtype));
  return inputs;
}

testing::Bytes Slice(const testing::Bytes& bytes, int64_t begin, int64_t size) {
  return testing::Bytes(bytes.begin() + begin, bytes.begin() + begin + size);
}

std::string Describe(int num_ranks, int64_t count, DType dtype, ReduceOp op = ReduceOp::kSum) {
  return base::Concat(num_ranks, " ranks, ", count, ' ', base::ToString(dtype), ", op ",
                      static_cast<int>(op));
}

// An all-reduce of every rank, in place and not, with what must come out.
struct AllReduceCase {
  AllReduceCase(int num_ranks, int64_t elements, DType type, ReduceOp operation)
      : count(elements),
        dtype(type),
        op(operation),
        inputs(InputsOf(num_ranks, count, dtype)),
        outputs(num_ranks, ZeroElements(count, dtype)),
        in_place(inputs) {}

  void Run(Communicator& world) {
    const int rank = world.rank();
    world.AllReduce(inputs[rank].data(), outputs[rank].data(), count, dtype, op);
    world.AllReduce(in_place[rank].data(), in_place[rank].data(), count, dtype, op);
  }
  void Verify() const {
    const int num_ranks = static_cast<int>(inputs.size());
    SCOPED_TRACE(Describe(num_ranks, count, dtype, op));
    const std::vector<testing::Bytes> untouched = InputsOf(num_ranks, count, dtype);
    const testing::Bytes expected = testing::ReduceSerially(untouched, dtype, op);
    for (int rank = 0; rank < num_ranks; ++rank) {
      EXPECT_TRUE(outputs[rank] == expected) << "rank " << rank;
      EXPECT_TRUE(in_place[rank] == expected) << "rank " << rank << " in place";
      EXPECT_TRUE(inputs[rank] == untouched[rank]) << "input of rank " << rank;
    }
  }

  int64_t count;
  DType dtype;
  ReduceOp op;
  std::vector<testing::Bytes> inputs, outputs, in_place;  // by rank
};

TEST_P(CommunicatorCollectivesTest, AllReduceEqualsTheSerialSumInRankOrder) {
  for (const int num_ranks : GroupSizes()) {
    std::vector<AllReduceCase> cases;
    for (const DType dtype : kReducible) {
      for (const ReduceOp op : kOps) {
        for (const int64_t count : kCounts) {
          // The long one in full for the sum alone: the others differ in one instruction.
          if (count > 1000 && op != ReduceOp::kSum) continue;
          cases.emplace_back(num_ranks, count, dtype, op);
        }
      }
    }
    // Long enough to travel in several parts.
    cases.emplace_back(num_ranks, 1'000'003, DType::kFloat32, ReduceOp::kAvg);
    RunRanks(num_ranks, [&](Communicator& world) {
      for (AllReduceCase& one : cases) one.Run(world);
    });
    for (const AllReduceCase& one : cases) one.Verify();
  }
}

// Reduce-scatter, in place and not, then all-gather of the parts, in place and not.
struct ReduceScatterCase {
  ReduceScatterCase(int num_ranks, int64_t elements, DType type, ReduceOp operation)
      : count(elements),
        dtype(type),
        op(operation),
        inputs(InputsOf(num_ranks, num_ranks * count, dtype)),
        reduced(inputs),
        parts(num_ranks, ZeroElements(count, dtype)),
        gathered(num_ranks, ZeroElements(num_ranks * count, dtype)),
        in_place(inputs) {}

  void Run(Communicator& world) {
    const int rank = world.rank();
    world.AllReduce(reduced[rank].data(), reduced[rank].data(), world.size() * count, dtype, op);
    world.ReduceScatter(inputs[rank].data(), parts[rank].data(), count, dtype, op);
    world.AllGather(parts[rank].data(), gathered[rank].data(), count, dtype);
    std::byte* own_block = in_place[rank].data() + rank * count * SizeBytes(dtype);
    world.ReduceScatter(in_place[rank].data(), own_block, count, dtype, op);
    world.AllGather(own_block, in_place[rank].data(), count, dtype);
  }
  void Verify() const {
    SCOPED_TRACE(Describe(static_cast<int>(inputs.size()), count, dtype, op));
    const testing::Bytes expected = testing::ReduceSerially(inputs, dtype, op);
    const int64_t block_bytes = count * SizeBytes(dtype);
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      const auto begin = static_cast<int64_t>(rank) * block_bytes;
      EXPECT_TRUE(parts[rank] == Slice(expected, begin, block_bytes)) << rank;
      EXPECT_TRUE(gathered[rank] == expected) << "rank " << rank;
      EXPECT_TRUE(in_place[rank] == expected) << "rank " << rank << " in place";
      EXPECT_TRUE(reduced[rank] == gathered[rank]) << "rank " << rank << " all-reduced";
    }
  }

  int64_t count;
  DType dtype;
  ReduceOp op;
  std::vector<testing::Bytes> inputs, reduced, parts, gathered, in_place;  // by rank
};

TEST_P(CommunicatorCollectivesTest, ReduceScatterThenAllGatherEqualsAllReduceBitwise) {
  for (const int num_ranks : GroupSizes()) {
    std::vector<ReduceScatterCase> cases;
    for (const DType dtype : kReducible) {
      for (const ReduceOp op : kOps) {
        for (const int64_t count : {0, 1, 7, 1000}) cases.emplace_back(num_ranks, count, dtype, op);
      }
    }
    cases.emplace_back(num_ranks, 100'003, DType::kFloat32, ReduceOp::kSum);
    cases.emplace_back(num_ranks, 100'003, DType::kBFloat16, ReduceOp::kAvg);
    cases.emplace_back(num_ranks, 400'003, DType::kFloat16, ReduceOp::kSum);
    RunRanks(num_ranks, [&](Communicator& world) {
      for (ReduceScatterCase& one : cases) one.Run(world);
    });
    for (const ReduceScatterCase& one : cases) one.Verify();
  }
}

TEST_P(CommunicatorCollectivesTest, ANanOnAnyRankIsSeenByAll) {
  constexpr int kNumRanks = 3;
  RunRanks(kNumRanks, [](Communicator& world) {
    for (const ReduceOp op : kOps) {
      // Element i is NaN on rank i alone.
      std::vector<float> data(kNumRanks, 1.0f);
      data[world.rank()] = std::nanf("");
      world.AllReduce(data.data(), data.data(), kNumRanks, DType::kFloat32, op);
      for (const float value : data) EXPECT_TRUE(std::isnan(value)) << static_cast<int>(op);
    }
  });
}

TEST_P(CommunicatorCollectivesTest, BroadcastGivesEveryRankTheDataOfTheRoot) {
  struct Case {
    int64_t count;
    DType dtype;
    std::vector<testing::Bytes> data;  // by rank
  };
  for (const int num_ranks : GroupSizes()) {
    const int root = num_ranks / 2;
    std::vector<Case> cases;
    for (const int64_t count : kCounts) {
      for (const DType dtype : {DType::kFloat32, DType::kUInt16, DType::kFloat8}) {
        cases.push_back({count, dtype, InputsOf(num_ranks, count, dtype)});
      }
    }
    RunRanks(num_ranks, [&](Communicator& world) {
      for (Case& one : cases) {
        world.Broadcast(one.data[world.rank()].data(), one.count, one.dtype, root);
      }
    });
    for (const Case& one : cases) {
      SCOPED_TRACE(Describe(num_ranks, one.count, one.dtype));
      for (const testing::Bytes& received : one.data) {
        EXPECT_TRUE(received == TestElements(root, one.count, one.dtype));
      }
    }
  }
}

TEST_P(CommunicatorCollectivesTest, AllToAllTransposesTheBlocks) {
  for (const int num_ranks : GroupSizes()) {
    for (const int64_t count : kCounts) {
      SCOPED_TRACE(Describe(num_ranks, count, DType::kInt32));
      const int64_t block_bytes = count * SizeBytes(DType::kInt32);
      const auto inputs = InputsOf(num_ranks, num_ranks * count, DType::kInt32);
      std::vector<testing::Bytes> outputs(num_ranks,
                                          ZeroElements(num_ranks * count, DType::kInt32));
      RunRanks(num_ranks, [&](Communicator& world) {
        world.AllToAll(inputs[world.rank()].data(), outputs[world.rank()].data(), count,
                       DType::kInt32);
      });
      for (int source = 0; source < num_ranks; ++source) {
        for (int target = 0; target < num_ranks; ++target) {
          EXPECT_TRUE(Slice(inputs[source], target * block_bytes, block_bytes) ==
                      Slice(outputs[target], source * block_bytes, block_bytes))
              << source << " to " << target;
        }
      }
    }
  }
}

TEST_P(CommunicatorCollectivesTest, BarrierLetsNobodyPassBeforeTheLastArrives) {
  constexpr int kNumRanks = 4;
  std::atomic<int> num_arrived{0};
  RunRanks(kNumRanks, [&](Communicator& world) {
    for (int round = 1; round <= 50; ++round) {
      ++num_arrived;
      world.Barrier();
      EXPECT_GE(num_arrived.load(), round * kNumRanks);
      world.Barrier();
    }
  });
}

TEST_P(CommunicatorCollectivesTest, ManySmallOperationsOnEightRanksStayInStep) {
  constexpr int kNumRanks = 8;
  const int num_rounds = has_processes() ? 50 : 2000;
  RunRanks(kNumRanks, [&](Communicator& world) {
    for (int round = 0; round < num_rounds; ++round) {
      int64_t sum = world.rank() + round;
      world.AllReduce(&sum, &sum, 1, DType::kInt64, ReduceOp::kSum);
      // Ranks 0 to 7 add 28, and each the round.
      ASSERT_EQ(sum, 28 + int64_t{kNumRanks} * round);
    }
  });
}

TEST_P(CommunicatorCollectivesTest, BuffersThatOverlapAreRefused) {
  RunRanks(1, [](Communicator& world) {
    std::vector<float> data(16);
    EXPECT_THROW(world.AllReduce(data.data(), data.data() + 1, 8, DType::kFloat32, ReduceOp::kSum),
                 base::CheckFailure);
    EXPECT_THROW(world.AllToAll(data.data(), data.data(), 8, DType::kFloat32), base::CheckFailure);
    EXPECT_THROW(world.AllReduce(data.data(), data.data(), 8, DType::kUInt16, ReduceOp::kSum),
                 base::CheckFailure);
    EXPECT_THROW(world.Broadcast(data.data(), 8, DType::kFloat32, 1), base::CheckFailure);
  });
}

TEST_P(CommunicatorCollectivesTest, BlockedTimeGrowsWhileWaiting) {
  RunRanks(2, [](Communicator& world) {
    const double before_s = world.blocked_s();
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    world.Barrier();
    if (world.rank() == 0) {
      EXPECT_GE(world.blocked_s() - before_s, 0.03);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, CommunicatorCollectivesTest,
                         ::testing::ValuesIn(testing::CommBackends()), testing::NameOfBackend);

}  // namespace
}  // namespace tessera::engine
