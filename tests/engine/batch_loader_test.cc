#include "engine/train/batch_loader.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::engine {
namespace {

// Token i of sample s is 100 s + i.
class NumberedSource : public SampleSource {
 public:
  void Read(int64_t sample, int32_t* tokens) const override {
    for (int32_t i = 0; i <= 8; ++i) tokens[i] = static_cast<int32_t>(100 * sample) + i;
  }
  int64_t sequence_length() const override { return 8; }
  int64_t num_samples() const override { return 100; }
  int32_t max_token() const override { return 10'000; }
};

using Tokens = std::vector<int32_t>;

struct Batch {
  Tokens tokens, labels;
};

Batch Load(const spec::ParallelSpec& parallel, const spec::RankCoord& coord) {
  const NumberedSource source;
  const spec::TrainingSpec training{.global_batch_size = 8, .sequence_length = 8};
  BatchLoader loader(source, training, parallel, coord);
  const Microbatch batch = loader.Load(/*consumed_samples=*/8, /*microbatch=*/1);
  const int64_t count = parallel.micro_batch_size * 8 / parallel.context_parallel_size;
  return {Tokens(batch.tokens, batch.tokens + count), Tokens(batch.labels, batch.labels + count)};
}

// Two samples a micro-batch, two data ranks: the second micro-batch of the second rank begins six
// samples on.
TEST(BatchLoaderTest, AMicrobatchHoldsItsSamplesWhole) {
  const Batch batch = Load({.data_parallel_size = 2, .micro_batch_size = 2}, {.data = 1});
  EXPECT_EQ(batch.tokens, (Tokens{1400, 1401, 1402, 1403, 1404, 1405, 1406, 1407,  //
                                  1500, 1501, 1502, 1503, 1504, 1505, 1506, 1507}));
  EXPECT_EQ(batch.labels.back(), 1508);
}

// Labels are the tokens that follow in the sequence, not among the rank's.
TEST(BatchLoaderTest, ContextRanksTakeAnEarlyAndALateChunkOfEachSample) {
  const spec::ParallelSpec parallel{.context_parallel_size = 2, .micro_batch_size = 2};
  const Batch first = Load(parallel, {.context = 0});
  EXPECT_EQ(first.tokens, (Tokens{1000, 1001, 1006, 1007, 1100, 1101, 1106, 1107}));
  EXPECT_EQ(first.labels, (Tokens{1001, 1002, 1007, 1008, 1101, 1102, 1107, 1108}));
  const Batch second = Load(parallel, {.context = 1});
  EXPECT_EQ(second.tokens, (Tokens{1002, 1003, 1004, 1005, 1102, 1103, 1104, 1105}));
  EXPECT_EQ(second.labels, (Tokens{1003, 1004, 1005, 1006, 1103, 1104, 1105, 1106}));
}

TEST(BatchLoaderTest, RanksThatSwapHeadsTakeNeighbours) {
  const spec::ParallelSpec parallel{.context_parallel_size = 4,
                                    .context_kind = spec::ContextKind::kAllToAll};
  EXPECT_EQ(Load(parallel, {.context = 2}).tokens, (Tokens{904, 905}));
  EXPECT_EQ(Load(parallel, {.context = 2}).labels, (Tokens{905, 906}));
}

// The end of a document belongs to it, also where nothing but ends follow: of whole samples,
// whichever tokens the rank holds. Where a sample ends it says nothing of the next.
TEST(BatchLoaderTest, DocumentsBeginBehindTheTokenThatEndsOne) {
  class Documents final : public NumberedSource {
   public:
    void Read(int64_t sample, int32_t* tokens) const override {
      constexpr int32_t kEnd = 7;
      const Tokens of_samples[] = {{1, 2, kEnd, 3, kEnd, kEnd, 4, kEnd, 5},
                                   {kEnd, 1, 2, 3, 4, 5, 6, 1, 2}};
      std::copy_n(of_samples[sample].begin(), 9, tokens);
    }
  };
  const Documents source;
  spec::TrainingSpec training{.global_batch_size = 2, .sequence_length = 8, .eod_token = 7};
  const spec::ParallelSpec parallel{.context_parallel_size = 2, .micro_batch_size = 2};
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(BatchLoader(source, training, parallel, {.context = rank}).Load(0, 0).document_starts,
              nullptr);
    for (bool* const option : {&training.reset_position_ids, &training.reset_attention_mask}) {
      *option = true;
      BatchLoader loader(source, training, parallel, {.context = rank});
      const int32_t* const starts = loader.Load(0, 0).document_starts;
      EXPECT_EQ(Tokens(starts, starts + 16), (Tokens{0, 0, 0, 3, 3, 5, 6, 6,  //
                                                     0, 1, 1, 1, 1, 1, 1, 1}));
      *option = false;
    }
  }
}

}  // namespace
}  // namespace tessera::engine
