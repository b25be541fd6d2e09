// Processes that meet for the first time; threads stand in for them, as nothing is shared.
#include "engine/comm/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/comm/attendance.h"
#include "engine/comm/tcp_socket.h"

namespace tessera::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kTimeoutS = 30;
constexpr double kShortTimeoutS = 0.3;

// A port that nobody listens on now.
MeetingPlace FreePort() { return {.address = "localhost", .port = PortOf(Listen(0))}; }

class RendezvousFile {
 public:
  RendezvousFile() {
    folder_ = std::filesystem::temp_directory_path() /
              base::Concat("tessera_rendezvous_", getpid(), '_',
                           std::chrono::steady_clock::now().time_since_epoch().count());
    std::filesystem::create_directories(folder_);
  }
  ~RendezvousFile() { std::filesystem::remove_all(folder_); }
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

  MeetingPlace place() const { return {.file = (folder_ / "meet").string()}; }
  void Leave(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  bool is_empty() const { return std::filesystem::is_empty(folder_); }

 private:
  std::filesystem::path folder_;
};

ProcessRank Rank(int rank, int num_ranks) {
  return {.rank = rank, .num_ranks = num_ranks, .launcher = "a test"};
}

// What each of the ranks got, or the message of its error.
std::vector<std::string> Meet(const std::vector<ProcessRank>& ranks, const MeetingPlace& place,
                              double timeout_s, const std::string& message = "the name") {
  std::vector<std::string> results(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          results[i] =
              ShareFromRankZero(ranks[i], place, ranks[i].rank == 0 ? message : "", timeout_s);
        } catch (const std::runtime_error& error) {
          results[i] = error.what();
        }
      });
    }
  }
  return results;
}

TEST(RendezvousTest, EveryRankGetsTheMessageOfRankZeroByTcp) {
  std::string message(70'000, 'x');
  message[3] = '\0';
  const auto results =
      Meet({Rank(3, 4), Rank(1, 4), Rank(0, 4), Rank(2, 4)}, FreePort(), kTimeoutS, message);
  for (const std::string& result : results) EXPECT_TRUE(result == message);
}

TEST(RendezvousTest, EveryRankGetsTheMessageOfRankZeroByFile) {
  const RendezvousFile file;
  // What a run before has left behind is no answer.
  file.Leave("meet", "17-4 11-2 \nan old name");
  file.Leave("meet.1", "17-4");
  for (int run = 0; run < 2; ++run) {
    const auto results =
        Meet({Rank(2, 3), Rank(1, 3), Rank(0, 3)}, file.place(), kTimeoutS, "a\nname");
    for (const std::string& result : results) EXPECT_EQ(result, "a\nname");
    EXPECT_TRUE(file.is_empty());
  }
}

TEST(RendezvousTest, RankZeroMayComeLast) {
  const MeetingPlace place = FreePort();
  std::string got;
  std::jthread early([&] { got = ShareFromRankZero(Rank(1, 2), place, "", kTimeoutS); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ShareFromRankZero(Rank(0, 2), place, "late", kTimeoutS);
  early.join();
  EXPECT_EQ(got, "late");
}

TEST(RendezvousTest, RanksThatNeverComeAreNamedOnAllThatHave) {
  const RendezvousFile file;
  const MeetingPlace port = FreePort();
  const std::string missing = base::Concat("in vain: ranks 1, 4-6 of 7 did not come; on ",
                                           OwnHostName(), " are ranks 0, 2, 3 (started by a test)");
  for (const MeetingPlace& place : {port, file.place()}) {
    const auto results = Meet({Rank(0, 7), Rank(2, 7), Rank(3, 7)}, place, kShortTimeoutS);
    for (const std::string& result : results) EXPECT_THAT(result, HasSubstr(missing));
    EXPECT_THAT(results[0], StartsWith("rank 0 waited at "));
    EXPECT_THAT(results[1], StartsWith(place.file.empty() ? "rank 2: rank 0 at localhost port "
                                                          : "rank 2 waited for rank 0 at "));
  }
}

TEST(RendezvousTest, HostsAreNamedWithTheirRanks) {
  Attendance attendance(Rank(0, 9));
  attendance.Add(8, "node-b");
  for (const int rank : {2, 3, 4, 6}) attendance.Add(rank, "node-a");
  EXPECT_TRUE(attendance.has(8));
  EXPECT_FALSE(attendance.has(7));
  const std::string text = attendance.WhoIsMissing();
  EXPECT_THAT(text, StartsWith("ranks 1, 5, 7 of 9 did not come; on "));
  EXPECT_THAT(text, HasSubstr("on node-a"));
  EXPECT_THAT(text, HasSubstr("ranks 2-4, 6"));
  EXPECT_THAT(text, HasSubstr("on node-b rank 8"));
}

TEST(RendezvousTest, ARankZeroThatNeverComesIsNamed) {
  const MeetingPlace place = FreePort();
  const auto results = Meet({Rank(1, 2)}, place, kShortTimeoutS);
  EXPECT_EQ(results[0], base::Concat("rank 1: rank 0 at localhost port ", place.port,
                                     " does not answer: Connection refused"));
}

TEST(RendezvousTest, RanksOfTwoRunsDoNotMix) {
  auto results = Meet({Rank(0, 2), Rank(1, 4)}, FreePort(), kTimeoutS);
  for (const std::string& result : results) {
    EXPECT_NE(result.find("thinks that there are 4 ranks, rank 0 that 2"), std::string::npos)
        << result;
  }
  results = Meet({Rank(0, 3), Rank(1, 3), Rank(1, 3)}, FreePort(), kTimeoutS);
  EXPECT_NE(results[0].find("rank 1 has come twice"), std::string::npos) << results[0];
}

TEST(RendezvousTest, AnotherProgramsConnectionIsPassedOver) {
  const MeetingPlace place = FreePort();
  std::string got;
  std::jthread server([&] { ShareFromRankZero(Rank(0, 2), place, "name", kTimeoutS); });
  std::string problem;
  std::optional<Socket> stranger;
  while (!(stranger = Connect("localhost", place.port, DeadlineAfter(kTimeoutS), problem))) {
  }
  EXPECT_TRUE(stranger->SendAll("GET / HTTP/1.1\r\n", DeadlineAfter(kTimeoutS)));
  // One that says nothing, and one that begins as a rank does.
  const auto silent = Connect("localhost", place.port, DeadlineAfter(kTimeoutS), problem);
  const auto slow = Connect("localhost", place.port, DeadlineAfter(kTimeoutS), problem);
  EXPECT_TRUE(slow->SendAll("tess", DeadlineAfter(kTimeoutS)));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ShareFromRankZero(Rank(1, 2), place, "", kTimeoutS), "name");
  // Far less than the patience with any of them.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace tessera::engine
