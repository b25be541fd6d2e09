// Dropout in hyper-parameters and in the files of other programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/spec/spec_json.h"
#include "tests/spec/spec_json_files.h"

namespace tessera::spec {
namespace {

using ::testing::HasSubstr;

using DropoutJsonTest = FileTest;

TEST_F(DropoutJsonTest, HyperparametersHaveSharesBelowOne) {
  TrainingSpec training;
  LoadHyperparameters(Write("train.json", R"({"hidden_dropout": 0.1, "attention_dropout": 0,
                                              "embedding_dropout": 0.25})"),
                      training);
  EXPECT_EQ(training.dropout, (DropoutSpec{.hidden = 0.1, .embedding = 0.25}));
  for (const char* value : {"1", "-0.1", "\"half\""}) {
    const std::string path =
        Write("train.json", std::string(R"({"attention_dropout": )") + value + "}");
    EXPECT_THAT(ConfigErrorOf([&] { LoadHyperparameters(path, training); }),
                HasSubstr("/attention_dropout: found"))
        << value;
  }
  const std::string path = Write("train.json", R"({"hidden_dropout": 1})");
  EXPECT_THAT(ConfigErrorOf([&] { LoadHyperparameters(path, training); }),
              HasSubstr("found 1, expected a number of at least 0 and below 1"));
}

// Megatron-LM drops embeddings like hidden states.
TEST_F(DropoutJsonTest, MegatronsIsReadWhereItIsGiven) {
  const auto load = [&](const std::string& further) {
    TrainingSpec training;
    LoadModel(Write("args.json", R"({"num_layers": 2, "hidden_size": 8, "num_attention_heads": 2,
                                     "seq_length": 4)" +
                                     further + "}"),
              &training);
    return training.dropout;
  };
  EXPECT_EQ(load(""), DropoutSpec());
  EXPECT_EQ(load(R"(, "hidden_dropout": 0.1, "attention_dropout": 0.2)"),
            (DropoutSpec{.hidden = 0.1, .attention = 0.2, .embedding = 0.1}));
  EXPECT_THAT(ConfigErrorOf([&] { load(R"(, "hidden_dropout": 1.5)"); }), HasSubstr("below 1"));
}

TEST_F(DropoutJsonTest, HuggingFacesIsReadWhereItIsNamed) {
  TrainingSpec training;
  LoadModel(Write("gpt/config.json", R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8,
      "n_head": 2, "n_positions": 16, "vocab_size": 64, "resid_pdrop": 0.1, "attn_pdrop": 0.2,
      "embd_pdrop": 0.3})"),
            &training);
  EXPECT_EQ(training.dropout, (DropoutSpec{.hidden = 0.1, .attention = 0.2, .embedding = 0.3}));
  training.dropout = {.hidden = 0.4, .attention = 0.4};
  LoadModel(Write("llama/config.json", R"({"model_type": "llama", "num_hidden_layers": 2,
      "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 64,
      "max_position_embeddings": 16, "attention_dropout": 0.0})"),
            &training);
  EXPECT_EQ(training.dropout, (DropoutSpec{.hidden = 0.4}));
}

}  // namespace
}  // namespace tessera::spec
