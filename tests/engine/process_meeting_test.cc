// Processes of which one is lost between the meeting and the first operation; threads stand in for
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/comm/control_client.h"
#include "engine/comm/process_world.h"
#include "engine/comm/rendezvous.h"
#include "engine/comm/tcp_socket.h"

namespace tessera::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kNumRanks = 3;
constexpr double kInitTimeoutS = 1;

class ProcessMeetingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasProcessWorld()) GTEST_SKIP() << "a build without Gloo";
  }

  ProcessRank Rank(int rank) const {
    return {.rank = rank, .num_ranks = kNumRanks, .launcher = "a test"};
  }

  // What ranks 0 and 1 have to say when rank 2 stands still, as `last_rank` ends.
  template <typename LastRank>
  std::vector<std::string> FailuresBeside(const LastRank& last_rank) const {
    std::vector<std::string> failures(kNumRanks - 1, "no failure");
    std::vector<std::jthread> threads;
    threads.emplace_back(last_rank);
    for (int rank = 0; rank + 1 < kNumRanks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          JoinProcessWorld(Rank(rank), place_, {.init_timeout_s = kInitTimeoutS});
        } catch (const base::CommError& error) {
          failures[static_cast<size_t>(rank)] = error.what();
        }
      });
    }
    threads.clear();
    return failures;
  }

  const MeetingPlace place_ = {.address = "127.0.0.1", .port = PortOf(Listen(0))};
};

TEST_F(ProcessMeetingTest, ARankThatHasMetAndNotConnectedIsNamed) {
  const auto failures =
      FailuresBeside([&] { ShareFromRankZero(Rank(2), place_, "", kInitTimeoutS); });
  for (const std::string& failure : failures) {
    EXPECT_THAT(failure, HasSubstr("rank 2 has come to the meeting, but not connected to rank 0"));
  }
  EXPECT_THAT(failures[1], HasSubstr("rank 1: "));
}

TEST_F(ProcessMeetingTest, ARankThatIsStoppedBeforeItConnectsToItsPeersIsNamed) {
  const auto failures = FailuresBeside([&] {
    std::istringstream answer(ShareFromRankZero(Rank(2), place_, "", kInitTimeoutS));
    int port = 0;
    std::string secret;
    answer >> port >> secret;
    const ControlClient silent("127.0.0.1", port, 2, secret, DeadlineAfter(kInitTimeoutS));
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * kInitTimeoutS + 1));
  });
  for (const std::string& failure : failures) {
    EXPECT_THAT(failure, AllOf(HasSubstr("of world: connecting timed out after 1 s"),
                               HasSubstr("rank 2 does not respond")));
  }
}

}  // namespace
}  // namespace tessera::engine
