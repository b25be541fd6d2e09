// All-to-all with blocks of any length.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/testing/comm_backends.h"
#include "tests/testing/typed_data.h"

namespace tessera::engine {
namespace {

using base::DType;
using testing::TestElements;

class CommunicatorAllToAllTest : public testing::OnEachBackend {};

// What rank `source` sends to rank `target`, times `unit`: nothing in places.
int64_t BlockLength(int source, int target, int64_t unit) {
  return (3 * source + 2 * target) % 5 * unit;
}

struct Counts {
  std::vector<int64_t> to, from;
};

Counts CountsOf(int rank, int num_ranks, int64_t unit) {
  Counts counts;
  for (int peer = 0; peer < num_ranks; ++peer) {
    counts.to.push_back(BlockLength(rank, peer, unit));
    counts.from.push_back(BlockLength(peer, rank, unit));
  }
  return counts;
}

int64_t Sum(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

// The bytes that rank `source` holds for rank `target`.
testing::Bytes BlockOf(const testing::Bytes& sent, int source, int target, int64_t unit_bytes) {
  int64_t begin = 0;
  for (int before = 0; before < target; ++before) begin += BlockLength(source, before, unit_bytes);
  const auto from = sent.begin() + begin;
  return {from, from + BlockLength(source, target, unit_bytes)};
}

void ExpectBlocksArrive(testing::CommBackend backend, int num_ranks, int64_t unit, DType dtype) {
  SCOPED_TRACE(base::Concat(num_ranks, " ranks, ", unit, ' ', base::ToString(dtype)));
  std::vector<testing::Bytes> sent, received(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    sent.push_back(TestElements(rank, Sum(CountsOf(rank, num_ranks, unit).to), dtype));
  }
  testing::RunRanks(backend, num_ranks, {}, [&](Communicator& world) {
    const Counts counts = CountsOf(world.rank(), num_ranks, unit);
    testing::Bytes& output = received[world.rank()];
    output = testing::ZeroElements(Sum(counts.from), dtype);
    world.AllToAllV(sent[world.rank()].data(), counts.to, output.data(), counts.from, dtype, 1);
  });
  for (int target = 0; target < num_ranks; ++target) {
    testing::Bytes expected;
    for (int source = 0; source < num_ranks; ++source) {
      const testing::Bytes block = BlockOf(sent[source], source, target, unit * SizeBytes(dtype));
      expected.insert(expected.end(), block.begin(), block.end());
    }
    EXPECT_TRUE(received[target] == expected) << "rank " << target;
  }
}

TEST_P(CommunicatorAllToAllTest, BlocksOfAnyLengthArriveInTheOrderOfTheirRanks) {
  for (const int num_ranks : {1, 2, 3, 4, 8}) {
    for (const int64_t unit : {0, 1, 7, 30'000}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        ExpectBlocksArrive(GetParam(), num_ranks, unit, dtype);
      }
    }
  }
}

TEST_P(CommunicatorAllToAllTest, MessagesInFlightAreLeftAlone) {
  RunRanks(2, [](Communicator& world) {
    const int peer = 1 - world.rank();
    const float own[2] = {1.0F + static_cast<float>(world.rank()), -1};
    float message = 0, exchanged[2] = {};
    const auto receive = world.RecvAsync(&message, 1, DType::kFloat32, peer, 0);
    const std::vector<int64_t> one_each = {1, 1};
    world.AllToAllV(own, one_each, exchanged, one_each, DType::kFloat32, 1);
    world.Send(own, 1, DType::kFloat32, peer, 0);
    receive->Wait();
    EXPECT_EQ(message, 1.0F + static_cast<float>(peer));
    // Rank 0 gets the first elements, rank 1 the second ones.
    EXPECT_EQ(exchanged[0], world.rank() == 0 ? 1.0F : -1.0F);
    EXPECT_EQ(exchanged[1], world.rank() == 0 ? 2.0F : -1.0F);
  });
}

TEST_P(CommunicatorAllToAllTest, CountsThatDoNotMatchAreToldByNumber) {
  const std::string failure = CommFailureOf(2, {}, [](Communicator& world) {
    std::vector<float> data(8), output(8);
    // Rank 0 sends 3 elements, rank 1 waits for 2.
    const std::vector<int64_t> to =
        world.rank() == 0 ? std::vector<int64_t>{0, 3} : std::vector<int64_t>{1, 0};
    const std::vector<int64_t> from =
        world.rank() == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{2, 0};
    world.AllToAllV(data.data(), to, output.data(), from, DType::kFloat32, 1);
  });
  EXPECT_NE(failure.find("3 fp32"), std::string::npos) << failure;
  EXPECT_NE(failure.find("2 fp32"), std::string::npos) << failure;
}

TEST_P(CommunicatorAllToAllTest, CountsForAnotherGroupAndOverlapsAreRefused) {
  RunRanks(1, [](Communicator& world) {
    std::vector<float> data(16);
    const std::vector<int64_t> eight = {8}, seven = {7}, two = {1, 1}, negative = {-1};
    const auto exchange = [&](float* output, const std::vector<int64_t>& to,
                              const std::vector<int64_t>& from) {
      world.AllToAllV(data.data(), to, output, from, DType::kFloat32, 1);
    };
    EXPECT_THROW(exchange(data.data() + 4, eight, eight), base::CheckFailure);
    EXPECT_THROW(exchange(data.data() + 8, two, two), base::CheckFailure);
    EXPECT_THROW(exchange(data.data() + 8, eight, seven), base::CheckFailure);
    EXPECT_THROW(exchange(data.data() + 8, negative, negative), base::CheckFailure);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, CommunicatorAllToAllTest,
                         ::testing::ValuesIn(testing::CommBackends()), testing::NameOfBackend);

}  // namespace
}  // namespace tessera::engine
