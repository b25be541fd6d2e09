// Model files of llm.c, put together here from the description of the format.
#include "engine/checkpoint/llmc_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cost_model/base/float16.h"
#include "cost_model/spec/parameter_list.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/weights_checkpoint.h"
#include "tests/engine/checkpoint_test_state.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::Bytes;
using test::ConfigErrorOf;
using test::ReadFile;
using test::TestFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Two layers of width 4, two heads, 5 tokens, 3 positions.
constexpr int kLayers = 2;
constexpr int kLlmcHidden = 4;
constexpr int kVocab = 5;
constexpr int kPositions = 3;
constexpr int kPaddedVocab = 128;

spec::ModelSpec SmallModel() {
  spec::ModelSpec model;
  model.num_layers = kLayers;
  model.hidden_size = kLlmcHidden;
  model.num_attention_heads = model.num_key_value_heads = 2;
  model.head_dim = 2;
  model.ffn_hidden_size = 16;
  model.vocab_size = kVocab;
  model.max_sequence_length = kPositions;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  model.tied_embeddings = true;
  return model;
}

// The tensors of a file in their order: names of PyTorch's model and rows times columns; weights
// are [out, in], each over all layers.
struct FileTensor {
  std::string name;
  int rows = 1;
  int columns = 1;
  bool is_per_layer = true;
};
const FileTensor kTensors[] = {{"wte", kPaddedVocab, kLlmcHidden, false},
                               {"wpe", kPositions, kLlmcHidden, false},
                               {"ln_1.weight", 1, kLlmcHidden},
                               {"ln_1.bias", 1, kLlmcHidden},
                               {"c_attn.weight", 3 * kLlmcHidden, kLlmcHidden},
                               {"c_attn.bias", 1, 3 * kLlmcHidden},
                               {"attn.c_proj.weight", kLlmcHidden, kLlmcHidden},
                               {"attn.c_proj.bias", 1, kLlmcHidden},
                               {"ln_2.weight", 1, kLlmcHidden},
                               {"ln_2.bias", 1, kLlmcHidden},
                               {"c_fc.weight", 16, kLlmcHidden},
                               {"c_fc.bias", 1, 16},
                               {"mlp.c_proj.weight", kLlmcHidden, 16},
                               {"mlp.c_proj.bias", 1, kLlmcHidden},
                               {"ln_f.weight", 1, kLlmcHidden, false},
                               {"ln_f.bias", 1, kLlmcHidden, false}};

// Unlike for every tensor, layer and place, and exact in bf16: at most 8 bits.
float ValueAt(int tensor, int layer, int row, int column) {
  const int place = (tensor * 67 + layer * 29 + row * 13 + column * 7) % 251;
  return static_cast<float>(place - 125) / 64;
}

std::string Header(int version) {
  return Bytes<int32_t>(20240326, version, kPositions, kVocab, kLayers, 2, kLlmcHidden,
                        kPaddedVocab) +
         std::string(1024 - 32, '\0');
}

std::string FileOf(int version) {
  std::string file = Header(version);
  for (int t = 0; t < 16; ++t) {
    for (int layer = 0; layer < (kTensors[t].is_per_layer ? kLayers : 1); ++layer) {
      for (int row = 0; row < kTensors[t].rows; ++row) {
        for (int column = 0; column < kTensors[t].columns; ++column) {
          const bool is_padding = t == 0 && row >= kVocab;
          const float value = is_padding ? 0 : ValueAt(t, layer, row, column);
          file +=
              version == 3 ? Bytes<float>(value) : Bytes<uint16_t>(base::FloatToBFloat16(value));
        }
      }
    }
  }
  return file;
}

std::vector<float> ReadParameter(const std::string& checkpoint, const std::string& name,
                                 const std::vector<int64_t>& shape) {
  CheckpointReader reader(checkpoint);
  const TensorPart whole = WholeTensor(shape);
  std::vector<float> values(static_cast<size_t>(whole.count));
  reader.Read(name, StateKind::kWeight, whole, values.data());
  return values;
}

// What a tensor of the file has in rows [first_row, first_row + num_rows).
std::vector<float> Expected(int tensor, int layer, int first_row, int num_rows) {
  std::vector<float> values;
  for (int row = first_row; row < first_row + num_rows; ++row) {
    for (int column = 0; column < kTensors[tensor].columns; ++column) {
      values.push_back(ValueAt(tensor, layer, row, column));
    }
  }
  return values;
}

TEST(LlmCModelTest, AFileBecomesACheckpointWithItsTensorsInTheirPlaces) {
  for (const int version : {3, 5}) {
    const TestFolder folder;
    const std::string checkpoint =
        ConvertFromLlmC(folder.Write("model.bin", FileOf(version)), folder.Path("save"));
    const CheckpointReader reader(folder.Path("save"));
    EXPECT_EQ(reader.model(), SmallModel());
    EXPECT_EQ(reader.manifest().progress, TrainProgress{});
    EXPECT_FALSE(reader.manifest().HasOptimizerState());
    const auto read = [&](const std::string& name, const std::vector<int64_t>& shape) {
      return ReadParameter(checkpoint, name, shape);
    };
    EXPECT_EQ(read("embedding.word.weight", {kVocab, kLlmcHidden}), Expected(0, 0, 0, kVocab));
    EXPECT_EQ(read("embedding.position.weight", {kPositions, kLlmcHidden}), Expected(1, 0, 0, 3));
    EXPECT_EQ(read("layers.1.attention.norm.bias", {kLlmcHidden}), Expected(3, 1, 0, 1));
    // c_attn's output is q, then k, then v.
    EXPECT_EQ(read("layers.1.attention.q.weight", {4, 4}), Expected(4, 1, 0, 4));
    EXPECT_EQ(read("layers.1.attention.k.weight", {4, 4}), Expected(4, 1, 4, 4));
    EXPECT_EQ(read("layers.0.attention.v.weight", {4, 4}), Expected(4, 0, 8, 4));
    const std::vector<float> qkv_bias = Expected(5, 0, 0, 1);
    EXPECT_EQ(read("layers.0.attention.v.bias", {4}),
              std::vector<float>(qkv_bias.begin() + 8, qkv_bias.end()));
    EXPECT_EQ(read("layers.0.attention.output.weight", {4, 4}), Expected(6, 0, 0, 4));
    EXPECT_EQ(read("layers.1.mlp.norm.weight", {4}), Expected(8, 1, 0, 1));
    EXPECT_EQ(read("layers.1.mlp.up.weight", {16, 4}), Expected(10, 1, 0, 16));
    EXPECT_EQ(read("layers.0.mlp.down.weight", {4, 16}), Expected(12, 0, 0, 4));
    EXPECT_EQ(read("layers.1.mlp.down.bias", {4}), Expected(13, 1, 0, 1));
    EXPECT_EQ(read("final_norm.bias", {4}), Expected(15, 0, 0, 1));
  }
}

TEST(LlmCModelTest, ThereAndBackGivesTheSameBytes) {
  for (const int version : {3, 5}) {
    const TestFolder folder;
    ConvertFromLlmC(folder.Write("model.bin", FileOf(version)), folder.Path("save"));
    ConvertToLlmC(folder.Path("save"), folder.Path("back.bin"),
                  version == 3 ? LlmCType::kFp32 : LlmCType::kBf16);
    EXPECT_TRUE(ReadFile(folder.Path("back.bin")) == FileOf(version)) << version;
  }
}

TEST(LlmCModelTest, AVocabularyOfWholeRowsHasNoPadding) {
  EXPECT_EQ(LlmCPaddedVocabSize(50257), 50304);  // GPT-2's in llm.c
  EXPECT_EQ(LlmCPaddedVocabSize(128), 128);
  spec::ModelSpec model = SmallModel();
  model.vocab_size = 128;
  const TestFolder folder;
  WriteWeightsCheckpoint(folder.Path("save"), model, "",
                         [](const CheckpointParameter&, std::span<float> elements) {
                           std::fill(elements.begin(), elements.end(), 0.5F);
                         });
  ConvertToLlmC(folder.Path("save"), folder.Path("model.bin"), LlmCType::kFp32);
  EXPECT_EQ(ReadFile(folder.Path("model.bin")).size(), FileOf(3).size());
  ConvertFromLlmC(folder.Path("model.bin"), folder.Path("back"));
  EXPECT_EQ(CheckpointReader(folder.Path("back")).model().vocab_size, 128);
}

TEST(LlmCModelTest, WeightsAreRoundedToTheNearestBf16) {
  const TestFolder folder;
  // Half way between 1 and the next bf16, 1 + 2^-7, and a bit more.
  WriteWeightsCheckpoint(folder.Path("save"), SmallModel(), "",
                         [](const CheckpointParameter&, std::span<float> elements) {
                           std::fill(elements.begin(), elements.end(), 1.0F + 0x1.02p-8F);
                         });
  ConvertToLlmC(folder.Path("save"), folder.Path("model.bin"), LlmCType::kBf16);
  const std::string file = ReadFile(folder.Path("model.bin"));
  EXPECT_EQ(file.substr(1024, 2), Bytes<uint16_t>(0x3f81));
}

TEST(LlmCModelTest, FilesThatAreNoModelAreRefusedByTheByte) {
  const TestFolder folder;
  const std::string good = FileOf(3);
  const auto error_of = [&](const std::string& file) {
    const std::string path = folder.Write("model.bin", file);
    return ConfigErrorOf([&] { ConvertFromLlmC(path, folder.Path("save")); });
  };
  const auto with_word = [&](int word, int32_t value) {
    std::string file = good;
    return file.replace(static_cast<size_t>(4 * word), 4, Bytes<int32_t>(value));
  };
  ASSERT_EQ(error_of(good), "no error");
  EXPECT_THAT(error_of(good.substr(0, 1000)), AllOf(HasSubstr("model.bin"), HasSubstr("1000")));
  EXPECT_THAT(error_of(with_word(0, 20240520)),
              AllOf(HasSubstr("byte 0"), HasSubstr("20240520"), HasSubstr("20240326")));
  EXPECT_THAT(error_of(with_word(1, 1)), AllOf(HasSubstr("byte 4"), HasSubstr("version 1")));
  EXPECT_THAT(error_of(with_word(2, 0)), HasSubstr("byte 8"));
  EXPECT_THAT(error_of(with_word(3, -5)), HasSubstr("byte 12"));
  EXPECT_THAT(error_of(with_word(5, 3)), AllOf(HasSubstr("byte 24"), HasSubstr("3 heads")));
  EXPECT_THAT(error_of(with_word(7, 4)), AllOf(HasSubstr("byte 28"), HasSubstr("vocabulary of 5")));
  // Sizes that say other than the file holds, products beyond int64 included.
  for (const std::string& file :
       {good + "x", good.substr(0, good.size() - 1), with_word(4, 3), with_word(2, 4),
        with_word(4, 2147483647), with_word(6, 2147483646), with_word(7, 129)}) {
    EXPECT_THAT(error_of(file), AllOf(HasSubstr("model.bin"), HasSubstr("bytes, expected")));
  }
  std::string huge = with_word(4, 2147483647);
  huge.replace(24, 4, Bytes<int32_t>(2147483646));
  EXPECT_THAT(error_of(huge), HasSubstr("bytes, expected"));
}

TEST(LlmCModelTest, AModelThatLlmCDoesNotKnowIsRefused) {
  const TestFolder folder;
  for (const spec::ModelSpec& model : {test::TinyLlama(), test::TinyGpt2()}) {
    WriteWeightsCheckpoint(folder.Path("save"), model, "",
                           [](const CheckpointParameter&, std::span<float>) {});
    EXPECT_THAT(ConfigErrorOf([&] {
                  ConvertToLlmC(folder.Path("save"), folder.Path("model.bin"), LlmCType::kFp32);
                }),
                HasSubstr(model.name));
    EXPECT_FALSE(PathExists(folder.Path("model.bin")));
  }
}

}  // namespace
}  // namespace tessera::engine
