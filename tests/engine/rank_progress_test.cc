// Who is to blame when ranks wait for each other.
#include "engine/comm/rank_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

using ::testing::HasSubstr;
using Answers = std::vector<std::optional<RankProgress>>;

RankWait CollectiveWait(const std::string& name, int64_t number, std::vector<int> ranks) {
  RankWait wait = {.group = name, .name = name, .world_ranks = std::move(ranks)};
  wait.op.header.kind = CollectiveKind::kAllReduce;
  wait.op.number = number;
  return wait;
}

RankWait ReceiveWait(const std::string& name, int64_t number, int peer) {
  RankWait wait = {.group = name, .name = name, .world_ranks = {peer}};
  wait.op = {.kind = CommOp::Kind::kReceive, .peer = peer, .tag = 7, .number = number};
  return wait;
}

RankProgress At(const std::string& group, int64_t num_collectives, const std::string& last = "x") {
  RankProgress progress;
  progress.groups[group] = {.num_collectives = num_collectives, .last_collectives = {last}};
  return progress;
}

TEST(RankProgressTest, WhatARankTellsIsUnderstoodByItsPeers) {
  RankProgress progress = At("world/3:1", 12, "all_reduce(64 fp32, sum)");
  progress.groups["world"].sent = {{3, {5, "64 fp32 with tag 2"}}, {7, {1, "1 int32 with tag 0"}}};
  progress.groups["world"].received = {{0, {2, "8 bf16 with tag 1"}}};
  progress.waits = {ReceiveWait("pp{0,3}", 4, 3), CollectiveWait("tp{0,1}", 9, {0, 1})};
  const RankProgress copy = ParseProgress(SerializeProgress(progress));
  EXPECT_EQ(SerializeProgress(copy), SerializeProgress(progress));
  EXPECT_EQ(copy.groups.at("world/3:1").last_collectives,
            (std::vector<std::string>{"all_reduce(64 fp32, sum)"}));
  EXPECT_EQ(copy.groups.at("world").sent.at(7).num, 1);
  EXPECT_EQ(copy.groups.at("world").sent.at(3).last, "64 fp32 with tag 2");
  ASSERT_EQ(copy.waits.size(), 2U);
  EXPECT_EQ(TitleOf(copy.waits[0].op), "receive #4 from rank 3, tag 7");
  EXPECT_EQ(TitleOf(copy.waits[1].op), "all_reduce #9");
  EXPECT_EQ(copy.waits[1].world_ranks, (std::vector<int>{0, 1}));
  EXPECT_THROW(ParseProgress("w\tnonsense\n"), base::CommError);
}

TEST(RankProgressTest, RanksThatDoNotAnswerAreToBlame) {
  const Answers answers = {At("world", 3), std::nullopt, At("world", 3), std::nullopt};
  EXPECT_EQ(Diagnose(CollectiveWait("world", 3, {0, 1, 2, 3}), 0, answers),
            "ranks 1, 3 do not respond: stopped, or cut off from the network");
}

TEST(RankProgressTest, RanksThatHaveNotCalledAreToBlame) {
  const Answers answers = {At("world", 3), At("world", 3), At("world", 2)};
  EXPECT_EQ(Diagnose(CollectiveWait("world", 3, {0, 1, 2}), 0, answers), "rank 2 has not arrived");
  // A rank that has never called anything of the group has told nothing of it.
  EXPECT_EQ(Diagnose(CollectiveWait("tp", 1, {0, 1, 2}), 0, answers),
            "ranks 1, 2 have not arrived");
}

TEST(RankProgressTest, AChainOfWaitsIsFollowedToItsEnd) {
  Answers answers = {At("dp{0,1}", 3), At("dp{0,1}", 2), RankProgress()};
  answers[1]->waits = {ReceiveWait("pp{1,2}", 1, 2)};
  EXPECT_EQ(
      Diagnose(CollectiveWait("dp{0,1}", 3, {0, 1}), 0, answers),
      "rank 1 has not arrived; rank 1 waits in receive #1 from rank 2, tag 7 of pp{1,2}: rank "
      "2 has not posted its end");
  // Round in a circle it ends.
  answers[2]->waits = {ReceiveWait("pp{1,2}", 1, 1)};
  EXPECT_THAT(Diagnose(CollectiveWait("dp{0,1}", 3, {0, 1}), 0, answers),
              HasSubstr("rank 2 waits in receive #1 from rank 1"));
}

TEST(RankProgressTest, AMessageWasSentWhenThePeerHasSentAsMany) {
  RankProgress peer;
  peer.groups["pp"].sent = {{0, {.num = 4}}};
  EXPECT_FALSE(HasNotCalled(ReceiveWait("pp", 4, 1), 0, 1, peer));
  EXPECT_TRUE(HasNotCalled(ReceiveWait("pp", 5, 1), 0, 1, peer));
  EXPECT_TRUE(HasNotCalled(ReceiveWait("pp", 1, 1), 2, 1, peer));   // all were to rank 0
  EXPECT_FALSE(HasNotCalled(ReceiveWait("pp", 5, 1), 0, 2, peer));  // nothing to do with it
}

TEST(RankProgressTest, DifferentCallsAreNamed) {
  const Answers answers = {At("world", 3, "all_reduce(64 fp32, sum)"), At("world", 3, "barrier")};
  EXPECT_EQ(Diagnose(CollectiveWait("world", 3, {0, 1}), 0, answers),
            "operation #3 differs: rank 0 called all_reduce(64 fp32, sum), rank 1 called barrier");
}

TEST(RankProgressTest, DifferentCallsAreNamedWhereRanksHaveGoneOnSince) {
  Answers answers = {At("world", 3, "broadcast"), At("world", 5), At("world", 3, "barrier")};
  answers[1]->groups["world"].last_collectives = {"broadcast", "all_reduce", "broadcast"};
  const RankWait wait = CollectiveWait("world", 3, {0, 1, 2});
  EXPECT_EQ(Diagnose(wait, 0, answers),
            "operation #3 differs: rank 0 called broadcast, rank 2 called barrier");
  // So far that nobody knows what they called.
  answers[1]->groups["world"] = {.num_collectives = 20, .last_collectives = {"a", "b"}};
  EXPECT_EQ(Diagnose(wait, 0, answers),
            "operation #3 differs: rank 0 called broadcast, rank 2 called barrier");
}

TEST(RankProgressTest, AChainMayEndAtCallsThatDiffer) {
  Answers answers = {At("dp", 3), At("dp", 2), At("dp", 2)};
  answers[1]->groups["pp"].received[2] = {1, "64 fp32 with tag 7"};
  answers[2]->groups["pp"].sent[1] = {1, "65 fp32 with tag 7"};
  answers[1]->waits = {ReceiveWait("pp", 1, 2)};
  EXPECT_EQ(Diagnose(CollectiveWait("dp", 3, {0, 1, 2}), 0, answers),
            "ranks 1, 2 have not arrived; rank 1 waits in receive #1 from rank 2, tag 7 of pp: the "
            "two ends differ: rank 1 called 64 fp32 with tag 7, rank 2 called 65 fp32 with tag 7");
}

TEST(RankProgressTest, EndsOfAMessageThatDifferAreNamed) {
  Answers answers(2, RankProgress());
  MessageProgress& sent = answers[1]->groups["pp"].sent[0];
  answers[0]->groups["pp"].received[1] = {4, "64 fp32 with tag 7"};
  const RankWait wait = ReceiveWait("pp", 4, 1);
  for (const std::string other :
       {"65 fp32 with tag 7", "64 bf16 with tag 7", "64 fp32 with tag 8"}) {
    sent = {4, other};
    EXPECT_EQ(Diagnose(wait, 0, answers),
              "the two ends differ: rank 0 called 64 fp32 with tag 7, rank 1 called " + other);
  }
  sent = {4, "64 fp32 with tag 7"};
  EXPECT_THAT(Diagnose(wait, 0, answers), HasSubstr("the network is slow"));
  sent = {5, "65 fp32 with tag 7"};  // of the next one: nothing is known of this one
  EXPECT_THAT(Diagnose(wait, 0, answers), HasSubstr("differ in size, type or tag, or the network"));
}

TEST(RankProgressTest, WhenAllHaveCalledTheSameTheNetworkIsToBlame) {
  const Answers answers = {At("world", 3), At("world", 3)};
  EXPECT_THAT(Diagnose(CollectiveWait("world", 3, {0, 1}), 0, answers),
              HasSubstr("the network is slow"));
}

}  // namespace
}  // namespace tessera::engine
