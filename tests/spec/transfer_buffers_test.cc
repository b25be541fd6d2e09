#include "cost_model/spec/transfer_buffers.h"

#include <gtest/gtest.h>

namespace tessera::spec {
namespace {

using Counts = std::vector<int64_t>;

TransferBuffers Of(const InterleavedShape& shape, int stage) {
  return TransferBuffersOf(MakeInterleaved(shape), stage, /*whole=*/1);
}

// Counted by hand in the actions that interleaved_schedule_test.cc spells out: the first stage
// waits with one activation of the last one, sends a forward pass's result only after the backward
// pass behind it, and exchanges up to three messages at once, or two beside one that waits.
TEST(TransferBuffersTest, LargerGroupsWaitWithWhatArrivesEarly) {
  const InterleavedShape shape{
      .num_stages = 2, .num_chunks = 2, .num_microbatches = 3, .group_size = 3};
  EXPECT_EQ(Of(shape, 0), (TransferBuffers{{1, 1}, {0, 1}, 3}));
  EXPECT_EQ(Of(shape, 1), (TransferBuffers{{0, 1}, {1, 1}, 3}));
}

// Counted by hand: 0SF0 goes on beside 0F1 and, as no receive is waited for in between, beside 2F0;
// 2SF1 beside 2B0.
TEST(TransferBuffersTest, OverlappedSendsAreHeldUntilTheyAreWaitedFor) {
  const InterleavedShape shape{
      .num_stages = 2, .num_chunks = 2, .num_microbatches = 2, .overlaps_transfers = true};
  EXPECT_EQ(Of(shape, 0), (TransferBuffers{{1, 1}, {0, 1}, 3}));
}

// Four tensor ranks that send a part each: what a pass gives is four messages, what it reads one.
TEST(TransferBuffersTest, PartsAreReceivedAndTheWholeIsSent) {
  PipelineSchedule schedule = MakeOneForwardOneBackward(2, 2);
  // [0SF1 0RB0]
  EXPECT_EQ(TransferBuffersOf(schedule, 0, 4), (TransferBuffers{{0}, {0}, 4 + 1}));
}

TEST(TransferBuffersTest, OneByOneNothingIsHeldBesideAPass) {
  for (const ScheduleKind kind :
       {ScheduleKind::kGPipe, ScheduleKind::kOneForwardOneBackward, ScheduleKind::kZeroBubbleH1}) {
    for (const int num_microbatches : {1, 3, 9}) {
      ParallelSpec parallel;
      parallel.pipeline_parallel_size = 4;
      parallel.schedule = kind;
      const PipelineSchedule schedule = MakeSchedule(parallel, num_microbatches);
      const std::vector<TransferBuffers> by_stage = TransferBuffersOf(parallel, num_microbatches);
      for (int stage = 0; stage < 4; ++stage) {
        const TransferBuffers played = TransferBuffersOf(schedule, stage, 1);
        EXPECT_EQ(played.beside_forward, Counts{0});
        EXPECT_EQ(played.beside_backward, Counts{0});
        // One pass's result and another one's input: less than the gradient and the partial sums of
        // a pass.
        EXPECT_LE(played.in_exchange, 2);
        EXPECT_EQ(by_stage[stage].beside_forward, played.beside_forward);
        EXPECT_EQ(by_stage[stage].beside_backward, played.beside_backward);
      }
    }
  }
}

// A run cut short holds what the whole one does.
TEST(TransferBuffersTest, MoreMicrobatchesHoldNoMore) {
  for (const int group : {0, 5}) {
    for (const bool overlaps : {false, true}) {
      ParallelSpec parallel;
      parallel.pipeline_parallel_size = 3;
      parallel.virtual_pipeline_size = 2;
      parallel.schedule = ScheduleKind::kInterleaved;
      parallel.microbatch_group_size = group;
      parallel.overlap_pp_comm = overlaps;
      const int num_microbatches = group == 0 ? 60 : 63;
      const PipelineSchedule schedule = MakeSchedule(parallel, num_microbatches);
      const std::vector<TransferBuffers> by_stage = TransferBuffersOf(parallel, num_microbatches);
      for (int stage = 0; stage < 3; ++stage) {
        EXPECT_EQ(by_stage[stage], TransferBuffersOf(schedule, stage, 1)) << group << overlaps;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::spec
