// What Megatron-LM's arguments say of schedules of learning rate, weight decay and batch size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "cost_model/spec/spec_json.h"
#include "tests/spec/spec_json_files.h"

namespace tessera::spec {
namespace {

using ::testing::HasSubstr;

class MegatronSchedulesTest : public FileTest {
 protected:
  TrainingSpec Load(const std::string& text, const std::string& name = "args.json") const {
    TrainingSpec training;
    LoadModel(Write(name, text), &training);
    return training;
  }
  std::string ErrorOf(const std::string& text, const std::string& name = "args.json") const {
    return ConfigErrorOf([&] { Load(text, name); });
  }
};

constexpr const char* kGpt3Arguments = R"({
  "num_layers": 96, "hidden_size": 12288, "num_attention_heads": 96, "seq_len": 2048,
  "bf16": true})";

TEST_F(MegatronSchedulesTest, SchedulesOfLearningRateAndWeightDecayAreRead) {
  const OptimizerSpec optimizer =
      Load(Replaced(kGpt3Arguments, "\"bf16\": true", R"("lr_decay_style": "WSD", "lr": 1e-3,
             "lr_warmup_init": 1e-5, "lr_warmup_iters": 10, "lr_decay_iters": 100,
             "lr_wsd_decay_iters": 20, "lr_wsd_decay_style": "minus_sqrt",
             "weight_decay": 0.01, "weight_decay_incr_style": "cosine",
             "start_weight_decay": 0.02, "end_weight_decay": 0.3)"))
          .optimizer;
  OptimizerSpec expected = {.lr = 1e-3,
                            .lr_warmup_init = 1e-5,
                            .lr_warmup_steps = 10,
                            .lr_decay_steps = 100,
                            .lr_decay_style = LrDecayStyle::kWsd,
                            .lr_wsd_decay_steps = 20,
                            .lr_wsd_decay_style = WsdDecayStyle::kMinusSqrt,
                            .weight_decay = 0.02,
                            .end_weight_decay = 0.3,
                            .weight_decay_style = WeightDecayStyle::kCosine};
  EXPECT_EQ(optimizer, expected);
  EXPECT_EQ(Load(Replaced(kGpt3Arguments, "\"bf16\": true",
                          "\"lr_decay_style\": \"inverse-square-root\""))
                .optimizer.lr_decay_style,
            LrDecayStyle::kInverseSquareRoot);
}

// With a ramp Megatron-LM counts in samples: 16 to 64 by 16 over 96 samples are steps of 16, 16
// (to 32), 32 (to 64) and 48 (to 112), then of 64.
TEST_F(MegatronSchedulesTest, ARampOfTheBatchIsReadWithLengthsInSamples) {
  const char* const kRamped = R"(--num-layers 2 --hidden-size 64 --num-attention-heads 4
--seq-length 32 --global-batch-size 64 --rampup-batch-size 16 16 96
--train-samples 300 --lr-decay-samples 256 --lr-warmup-samples 64)";
  const TrainingSpec training = Load(kRamped, "args.txt");
  EXPECT_EQ(training.batch_ramp, (BatchRamp{16, 16, 96}));
  EXPECT_EQ(training.steps, 4 + (300 - 112) / 64);
  EXPECT_EQ(training.optimizer.lr_decay_steps, 4);
  EXPECT_EQ(training.optimizer.lr_warmup_steps, 1);
  EXPECT_THAT(ErrorOf(Replaced(kRamped, "16 16 96", "16 16"), "args.txt"),
              HasSubstr("found 2 numbers"));
  // Lengths whose sums and products would not be whole numbers any more.
  EXPECT_THAT(ErrorOf(Replaced(kRamped, "16 16 96", "16 16 9223372036854775807"), "args.txt"),
              HasSubstr("the samples of the ramp"));
  for (const char* const length : {"--train-samples 300", "--lr-decay-samples 256"}) {
    const std::string name(length, std::strchr(length + 2, ' '));
    EXPECT_THAT(ErrorOf(Replaced(kRamped, length, name + " 9223372036854775807"), "args.txt"),
                HasSubstr("found 9223372036854775807"));
  }
  EXPECT_THAT(ErrorOf(Replaced(kRamped, "--train-samples 300", "--train-iters 300"), "args.txt"),
              HasSubstr("expected train_samples"));
}

}  // namespace
}  // namespace tessera::spec
