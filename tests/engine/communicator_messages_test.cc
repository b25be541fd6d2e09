// Sends and receives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/comm_backends.h"

namespace tessera::engine {
namespace {

using base::DType;
using testing::CommOptions;
using ::testing::HasSubstr;

const CommOptions kBuffered = {};
const CommOptions kRendezvous = {.rendezvous_sends = true};
const CommOptions kImpatientRendezvous = {.timeout_s = 0.2, .rendezvous_sends = true};

class CommunicatorMessagesTest : public testing::OnEachBackend {
 protected:
  void RunRanks(int num_ranks, const CommOptions& options,
                const std::function<void(Communicator&)>& body) const {
    testing::RunRanks(GetParam(), num_ranks, options, body);
  }
  using OnEachBackend::RunRanks;
};

TEST_P(CommunicatorMessagesTest, MessagesOfOneTagArriveInTheOrderTheyWereSent) {
  RunRanks(2, [](Communicator& world) {
    for (int i = 0; i < 200; ++i) {
      int value = i;
      if (world.rank() == 0) {
        world.Send(&value, 1, DType::kInt32, 1, 5);
      } else {
        world.Recv(&value, 1, DType::kInt32, 0, 5);
        ASSERT_EQ(value, i);
      }
    }
  });
}

TEST_P(CommunicatorMessagesTest, TagsTellMessagesApartWhateverTheOrder) {
  RunRanks(2, [](Communicator& world) {
    if (world.rank() == 0) {
      std::vector<int> values(10);
      std::vector<std::unique_ptr<CommHandle>> sends;
      for (int tag = 0; tag < 10; ++tag) {
        values[tag] = tag;
        sends.push_back(world.SendAsync(&values[tag], 1, DType::kInt32, 1, tag));
      }
      for (const auto& send : sends) send->Wait();
    } else {
      for (int tag = 9; tag >= 0; --tag) {
        int value = -1;
        world.Recv(&value, 1, DType::kInt32, 0, tag);
        EXPECT_EQ(value, tag);
      }
    }
  });
}

TEST_P(CommunicatorMessagesTest, ABufferedSendKeepsItsDataWhenTheSenderOverwritesIt) {
  if (!buffers_sends()) GTEST_SKIP() << "its sends wait for their receives";
  std::atomic<bool> overwritten{false};
  RunRanks(2, [&](Communicator& world) {
    std::vector<int> data(10'000, 42);
    if (world.rank() == 0) {
      world.Send(data.data(), 10'000, DType::kInt32, 1, 0);
      std::fill(data.begin(), data.end(), 7);
      overwritten = true;
    } else {
      while (!overwritten) std::this_thread::yield();
      std::vector<int> received(10'000);
      world.Recv(received.data(), 10'000, DType::kInt32, 0, 0);
      EXPECT_EQ(received, std::vector<int>(10'000, 42));
    }
  });
}

// Every rank passes a message to the next and takes one from the previous, in one group.
void ExpectRingExchange(testing::CommBackend backend, int num_ranks, int64_t count,
                        const CommOptions& options) {
  testing::RunRanks(backend, num_ranks, options, [&](Communicator& world) {
    const int next = (world.rank() + 1) % num_ranks;
    const int previous = (world.rank() + num_ranks - 1) % num_ranks;
    for (int round = 0; round < 10; ++round) {
      const std::vector<int> sent(count, world.rank() * 100 + round);
      std::vector<int> received(count, -1);
      world.GroupStart();
      world.Send(sent.data(), count, DType::kInt32, next, round);
      world.Recv(received.data(), count, DType::kInt32, previous, round);
      world.GroupEnd();
      ASSERT_EQ(received, std::vector<int>(count, previous * 100 + round));
    }
  });
}

TEST_P(CommunicatorMessagesTest, AGroupOfMessagesIsUnderWayUntilItsHandleHasWaited) {
  for (const CommOptions& options : {kBuffered, kRendezvous}) {
    RunRanks(3, options, [](Communicator& world) {
      const int next = (world.rank() + 1) % 3;
      const int previous = (world.rank() + 2) % 3;
      // Each passes on what came last, as blocks travel round a ring.
      std::vector<int> held(1000, world.rank());
      std::vector<int> coming(1000);
      for (int step = 1; step < 3; ++step) {
        world.GroupStart();
        world.Recv(coming.data(), 1000, DType::kInt32, previous, step);
        world.Send(held.data(), 1000, DType::kInt32, next, step);
        const auto exchange = world.GroupEndAsync();
        EXPECT_EQ(held, std::vector<int>(1000, (world.rank() + 4 - step) % 3));
        exchange->Wait();
        std::swap(held, coming);
      }
      EXPECT_EQ(held, std::vector<int>(1000, next));
    });
  }
}

TEST_P(CommunicatorMessagesTest, AGroupExchangesBothWaysAtOnceInEitherMode) {
  for (const int num_ranks : {1, 2, 3, 8}) {
    for (const int64_t count : {0, 1, 100'000}) {
      ExpectRingExchange(GetParam(), num_ranks, count, kBuffered);
      ExpectRingExchange(GetParam(), num_ranks, count, kRendezvous);
    }
  }
}

TEST_P(CommunicatorMessagesTest, ARendezvousSendReturnsOnlyAfterItsReceiveIsPosted) {
  if (!can_rendezvous()) GTEST_SKIP() << "its sends do not wait";
  std::atomic<bool> receive_is_near{false};
  RunRanks(2, kRendezvous, [&](Communicator& world) {
    int value = 3;
    if (world.rank() == 0) {
      world.Send(&value, 1, DType::kInt32, 1, 0);
      EXPECT_TRUE(receive_is_near);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      receive_is_near = true;
      world.Recv(&value, 1, DType::kInt32, 0, 0);
      EXPECT_EQ(value, 3);
    }
  });
}

void SendToEachOtherThenReceive(Communicator& world) {
  const int peer = 1 - world.rank();
  int value = world.rank();
  world.Send(&value, 1, DType::kInt32, peer, 4);
  world.Recv(&value, 1, DType::kInt32, peer, 4);
  EXPECT_EQ(value, peer);
}

TEST_P(CommunicatorMessagesTest, CrossedSendsPassBufferedAndTimeOutInRendezvous) {
  if (buffers_sends()) RunRanks(2, SendToEachOtherThenReceive);
  if (!can_rendezvous()) return;
  EXPECT_THAT(CommFailureOf(2, kImpatientRendezvous, SendToEachOtherThenReceive),
              HasSubstr("tag 4 timed out after 0.2 s; rank"));
}

// The first rank's send meets its receive only after what follows on both.
TEST_P(CommunicatorMessagesTest, AGroupMayGoOnBehindWhatFollows) {
  RunRanks(2, kRendezvous, [](Communicator& world) {
    int first = 5 + world.rank();
    int second = 0;
    world.GroupStart();
    if (world.rank() == 0) {
      world.Send(&first, 1, DType::kInt32, 1, 0);
    } else {
      world.Recv(&first, 1, DType::kInt32, 0, 0);
    }
    const auto group = world.GroupEndAsync();
    if (world.rank() == 0) {
      world.Recv(&second, 1, DType::kInt32, 1, 1);
    } else {
      second = 9;
      world.Send(&second, 1, DType::kInt32, 0, 1);
    }
    group->Wait();
    EXPECT_EQ(first, 5);
    EXPECT_EQ(second, 9);
  });
}

TEST_P(CommunicatorMessagesTest, AsynchronousSendsAndReceivesMayCrossInRendezvous) {
  RunRanks(2, kRendezvous, [](Communicator& world) {
    const int peer = 1 - world.rank();
    std::vector<double> sent(5000, world.rank() + 0.5);
    std::vector<double> received(5000);
    const auto send = world.SendAsync(sent.data(), 5000, DType::kInt64, peer, 0);
    const auto receive = world.RecvAsync(received.data(), 5000, DType::kInt64, peer, 0);
    send->Wait();
    receive->Wait();
    EXPECT_EQ(received, std::vector<double>(5000, peer + 0.5));
  });
}

TEST_P(CommunicatorMessagesTest, AllPairsOfEightRanksTalkAtOnce) {
  constexpr int kNumRanks = 8;
  for (const CommOptions& options : {kBuffered, kRendezvous}) {
    RunRanks(kNumRanks, options, [](Communicator& world) {
      for (int round = 0; round < 50; ++round) {
        std::vector<std::vector<int>> sent(kNumRanks);
        std::vector<std::vector<int>> received(kNumRanks);
        world.GroupStart();
        for (int peer = 0; peer < kNumRanks; ++peer) {
          const int64_t count = 1 + (round * 37) % 500;
          sent[peer].assign(count, world.rank() * kNumRanks + peer);
          received[peer].resize(count);
          world.Send(sent[peer].data(), count, DType::kInt32, peer, round);
          world.Recv(received[peer].data(), count, DType::kInt32, peer, round);
        }
        world.GroupEnd();
        for (int peer = 0; peer < kNumRanks; ++peer) {
          ASSERT_EQ(received[peer],
                    std::vector<int>(received[peer].size(), peer * kNumRanks + world.rank()));
        }
      }
    });
  }
}

TEST_P(CommunicatorMessagesTest, EndsOfDifferentSizeAreAnErrorThatNamesBoth) {
  for (const CommOptions& options : {kBuffered, kRendezvous}) {
    const std::string failure = CommFailureOf(2, options, [](Communicator& world) {
      std::vector<float> data(100);
      if (world.rank() == 0) world.Send(data.data(), 100, DType::kFloat32, 1, 9);
      if (world.rank() == 1) world.Recv(data.data(), 50, DType::kFloat32, 0, 9);
    });
    EXPECT_THAT(failure, HasSubstr("tag 9: "));
    EXPECT_THAT(failure, HasSubstr("100 fp32"));
    EXPECT_THAT(failure, HasSubstr("50 fp32"));
  }
}

TEST_P(CommunicatorMessagesTest, AReceiveWithoutASendNamesThePeerWhenItTimesOutOrThePeerEnds) {
  const auto receive = [](Communicator& world) {
    int value = 0;
    world.Recv(&value, 1, DType::kInt32, 1, 3);
  };
  std::atomic<bool> rank_0_has_failed{false};
  EXPECT_EQ(CommFailureOf(2, {.timeout_s = 0.1},
                          [&](Communicator& world) {
                            if (world.rank() == 1) {
                              while (!rank_0_has_failed) std::this_thread::yield();
                              return;
                            }
                            try {
                              receive(world);
                            } catch (const base::CommError&) {
                              rank_0_has_failed = true;
                              throw;
                            }
                          }),
            "rank 0 of world: receive #1 from rank 1, tag 3 timed out after 0.1 s; rank 1 has not "
            "posted its end");
  EXPECT_EQ(CommFailureOf(2, kBuffered,
                          [&](Communicator& world) {
                            if (world.rank() == 0) receive(world);
                          }),
            "rank 0 of world: receive #1 from rank 1, tag 3 cannot complete; rank 1 has ended "
            "without it");
}

TEST_P(CommunicatorMessagesTest, AMessageOutlivesTheRankThatSentIt) {
  if (!buffers_sends()) GTEST_SKIP() << "its sends wait for their receives";
  RunRanks(2, [](Communicator& world) {
    int value = 11;
    if (world.rank() == 0) return world.Send(&value, 1, DType::kInt32, 1, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    value = 0;
    world.Recv(&value, 1, DType::kInt32, 0, 0);
    EXPECT_EQ(value, 11);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, CommunicatorMessagesTest,
                         ::testing::ValuesIn(testing::CommBackends()), testing::NameOfBackend);

}  // namespace
}  // namespace tessera::engine
