#include "engine/checkpoint/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "cost_model/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "tests/engine/hugging_face_test_folder.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using test::ConfigErrorOf;
using test::HuggingFaceValue;
using test::Layout;
using test::LayoutText;
using test::RankState;
using test::ReadAllTensors;
using test::TensorList;
using test::TestFolder;
using test::TinyGpt2;
using test::TinyLlama;
using test::TinyQwen2;
using ::testing::AllOf;
using ::testing::HasSubstr;

spec::ModelSpec TinyQwenMoe() {
  spec::ModelSpec model = TinyQwen2();
  model.moe = spec::MoeSpec{.num_experts = 3,
                            .experts_per_token = 2,
                            .expert_ffn_hidden_size = 6,
                            .shared_expert_ffn_hidden_size = 10,
                            .shared_expert_gate = true,
                            .normalized_router_weights = false};
  return model;
}

// Loads a folder into one rank and compares a parameter element by element: `expected` takes row
// and column of the global matrix. Returns how many elements were compared.
int64_t CheckParameter(const RankState& rank, const std::string& name,
                       const std::function<float(int64_t row, int64_t column)>& expected) {
  const TrainState& state = rank.state();
  for (size_t p = 0; p < state.parameters.size(); ++p) {
    if (state.parameters[p].name != name) continue;
    const spec::ParameterSpec& parameter = state.parameters[p];
    const int64_t columns = parameter.global_shape.size() > 1 ? parameter.global_shape[1] : 1;
    const float* const data = state.weights + state.layout.parameters[p].offset;
    for (int64_t i = 0; i < state.slices[p].num_elements; ++i) {
      const int64_t global = test::GlobalIndex(parameter, state.slices[p], i);
      const float wanted = global < 0 ? 0 : expected(global / columns, global % columns);
      EXPECT_EQ(data[i], wanted) << name << " element " << i;
      if (data[i] != wanted) return 0;
    }
    return state.slices[p].num_elements;
  }
  return 0;
}

TEST(HuggingFaceTest, ShardsTakeTheirPartOfEachTensor) {
  const spec::ModelSpec model = TinyGpt2();
  const TestFolder folder;
  test::WriteHuggingFaceFolder(folder.Path("hf"), model, test::TensorsOf(model));
  spec::ParallelSpec layout = Layout(2, 1, 4, 1, 2);  // buckets as stage 3 has them
  for (int data_rank = 0; data_rank < 4; ++data_rank) {
    const spec::RankCoord coord{.tensor = 1, .data = data_rank};
    layout.zero_stage = 2;
    RankState whole(model, layout, coord);
    LoadHuggingFaceWeights(folder.Path("hf"), model, whole.state());
    layout.zero_stage = 3;
    RankState shards(model, layout, coord);
    LoadHuggingFaceWeights(folder.Path("hf"), model, shards.state());
    for (const spec::OwnedRange& range : shards.state().owned) {
      const float* const expected = whole.state().weights + range.offset;
      EXPECT_TRUE(std::equal(expected, expected + range.num_elements,
                             shards.state().weights + range.state_offset))
          << "data rank " << data_rank << ", from " << range.offset;
    }
  }
}

TEST(HuggingFaceTest, Gpt2WeightsAreTransposedAndQkvTakenApart) {
  const spec::ModelSpec model = TinyGpt2();
  const int64_t h = model.hidden_size;
  const int64_t f = model.ffn_hidden_size;
  const TestFolder folder;
  test::WriteHuggingFaceFolder(folder.Path("hf"), model, test::TensorsOf(model));
  for (int tensor_rank = 0; tensor_rank < 4; ++tensor_rank) {
    RankState rank(model, Layout(4, 1, 1), {.tensor = tensor_rank});
    LoadHuggingFaceWeights(folder.Path("hf"), model, rank.state());
    const std::string layer = "transformer.h.2.";
    int part = 0;
    for (const char* const each : {"q", "k", "v"}) {
      const std::string ours = base::Concat("layers.2.attention.", each);
      EXPECT_GT(CheckParameter(rank, ours + ".weight",
                               [&](int64_t out, int64_t in) {
                                 return HuggingFaceValue(layer + "attn.c_attn.weight",
                                                         in * 3 * h + part * h + out);
                               }),
                0);
      EXPECT_GT(CheckParameter(rank, ours + ".bias",
                               [&](int64_t out, int64_t) {
                                 return HuggingFaceValue(layer + "attn.c_attn.bias",
                                                         part * h + out);
                               }),
                0);
      ++part;
    }
    EXPECT_GT(CheckParameter(rank, "layers.2.attention.output.weight",
                             [&](int64_t out, int64_t in) {
                               return HuggingFaceValue(layer + "attn.c_proj.weight", in * h + out);
                             }),
              0);
    EXPECT_GT(CheckParameter(rank, "layers.2.mlp.up.weight",
                             [&](int64_t out, int64_t in) {
                               return HuggingFaceValue(layer + "mlp.c_fc.weight", in * f + out);
                             }),
              0);
    EXPECT_GT(CheckParameter(rank, "layers.2.mlp.down.weight",
                             [&](int64_t out, int64_t in) {
                               return HuggingFaceValue(layer + "mlp.c_proj.weight", in * h + out);
                             }),
              0);
    EXPECT_GT(CheckParameter(rank, "embedding.word.weight",
                             [&](int64_t row, int64_t column) {
                               return HuggingFaceValue("transformer.wte.weight", row * h + column);
                             }),
              0);
    EXPECT_GT(CheckParameter(rank, "embedding.position.weight",
                             [&](int64_t row, int64_t column) {
                               return HuggingFaceValue("transformer.wpe.weight", row * h + column);
                             }),
              0);
    EXPECT_GT(CheckParameter(
                  rank, "layers.2.mlp.norm.bias",
                  [&](int64_t row, int64_t) { return HuggingFaceValue(layer + "ln_2.bias", row); }),
              0);
  }
}

TEST(HuggingFaceTest, LlamaWeightsKeepTheirOrientation) {
  const spec::ModelSpec model = TinyLlama();
  const TestFolder folder;
  test::WriteHuggingFaceFolder(folder.Path("hf"), model, test::TensorsOf(model));
  const std::map<std::string, std::string> names = {
      {"embedding.word.weight", "model.embed_tokens.weight"},
      {"output.weight", "lm_head.weight"},
      {"final_norm.weight", "model.norm.weight"},
      {"layers.3.attention.norm.weight", "model.layers.3.input_layernorm.weight"},
      {"layers.3.attention.q.weight", "model.layers.3.self_attn.q_proj.weight"},
      {"layers.3.attention.k.weight", "model.layers.3.self_attn.k_proj.weight"},
      {"layers.3.attention.v.weight", "model.layers.3.self_attn.v_proj.weight"},
      {"layers.3.attention.output.weight", "model.layers.3.self_attn.o_proj.weight"},
      {"layers.3.mlp.norm.weight", "model.layers.3.post_attention_layernorm.weight"},
      {"layers.3.mlp.gate.weight", "model.layers.3.mlp.gate_proj.weight"},
      {"layers.3.mlp.up.weight", "model.layers.3.mlp.up_proj.weight"},
      {"layers.3.mlp.down.weight", "model.layers.3.mlp.down_proj.weight"}};
  for (int tensor_rank = 0; tensor_rank < 4; ++tensor_rank) {
    RankState rank(model, Layout(4, 1, 1), {.tensor = tensor_rank});
    LoadHuggingFaceWeights(folder.Path("hf"), model, rank.state());
    for (const auto& [ours, theirs] : names) {
      for (const spec::ParameterSpec& parameter : rank.state().parameters) {
        if (parameter.name != ours) continue;
        const int64_t columns = parameter.global_shape.size() > 1 ? parameter.global_shape[1] : 1;
        EXPECT_GT(CheckParameter(rank, ours,
                                 [&](int64_t row, int64_t column) {
                                   return HuggingFaceValue(theirs, row * columns + column);
                                 }),
                  0);
      }
    }
  }
}

// Loads into all ranks of a layout and exports from there.
void LoadAndExport(const std::string& from, const spec::ModelSpec& model,
                   const spec::ParallelSpec& parallel, const std::string& to) {
  const spec::RankLayout layout(parallel);
  testing::RunRanks(layout.world_size(), [&](Communicator& world) {
    RankState rank(model, parallel, layout.CoordOf(world.rank()));
    LoadHuggingFaceWeights(from, model, rank.state());
    ExportHuggingFaceModel(rank.state(), model, world, to);
  });
}

TEST(HuggingFaceTest, WhatGoesInComesOutBitForBitUnderEveryLayout) {
  const std::vector<spec::ModelSpec> models = {
      TinyGpt2(), TinyLlama(1), TinyLlama(2), TinyLlama(4), TinyLlama(4, /*tied=*/true),
      TinyQwen2()};
  const std::vector<spec::ParallelSpec> layouts = {
      Layout(1, 1, 1), Layout(4, 1, 1), Layout(2, 2, 2, 2), Layout(1, 4, 1), Layout(2, 1, 2, 1, 0)};
  for (const spec::ModelSpec& model : models) {
    const TestFolder folder;
    test::WriteHuggingFaceFolder(folder.Path("hf"), model, test::TensorsOf(model));
    for (const spec::ParallelSpec& parallel : layouts) {
      LoadAndExport(folder.Path("hf"), model, parallel, folder.Path("out"));
      EXPECT_EQ(ReadAllTensors(folder.Path("out")), ReadAllTensors(folder.Path("hf")))
          << model.name << " of " << model.num_key_value_heads << " kv heads, "
          << LayoutText(parallel);
      EXPECT_THAT(ListFolder(folder.Path("out")),
                  ::testing::ElementsAre("config.json", "model.safetensors"));
    }
    EXPECT_EQ(folder.NumFiles(), 2u) << "temporary folders are left";
  }
}

TEST(HuggingFaceTest, TheExportedConfigDescribesTheSameModel) {
  const TestFolder folder;
  for (spec::ModelSpec model : {TinyGpt2(), TinyLlama(1), TinyQwen2()}) {
    test::WriteHuggingFaceFolder(folder.Path("hf"), model, test::TensorsOf(model));
    LoadAndExport(folder.Path("hf"), model, Layout(2, 1, 1), folder.Path("out"));
    spec::ModelSpec read = spec::LoadModel(folder.Path("out"));
    read.name = model.name;  // config.json has none
    EXPECT_EQ(read, model);
  }
}

TEST(HuggingFaceTest, ConversionToANativeCheckpointAndBackIsExact) {
  for (const spec::ModelSpec& model : {TinyGpt2(), TinyLlama(), TinyQwen2(), TinyQwenMoe()}) {
    const TestFolder folder;
    test::WriteHuggingFaceFolder(folder.Path("hf"), model, test::TensorsOf(model));
    const std::string checkpoint = ConvertFromHuggingFace(folder.Path("hf"), folder.Path("native"));
    ConvertToHuggingFace(checkpoint, folder.Path("back"), /*max_shard_bytes=*/3000);
    EXPECT_TRUE(PathExists(folder.Path("back/model.safetensors.index.json")));
    EXPECT_EQ(ReadAllTensors(folder.Path("back")), ReadAllTensors(folder.Path("hf")));
  }
}

TEST(HuggingFaceTest, ShardsBareNamesAndBuffersAreTaken) {
  const spec::ModelSpec model = TinyGpt2();
  const TestFolder folder;
  TensorList tensors = test::Gpt2Tensors(model, "");
  tensors.push_back({"h.0.attn.bias", {1, 1, 4, 4}});
  tensors.push_back({"h.0.attn.masked_bias", {1}});
  test::WriteHuggingFaceFolder(folder.Path("hf"), model, tensors, /*max_shard_bytes=*/2000);
  RankState rank(model, Layout(1, 1, 1), {});
  LoadHuggingFaceWeights(folder.Path("hf"), model, rank.state());
  EXPECT_GT(CheckParameter(
                rank, "layers.0.attention.output.bias",
                [](int64_t row, int64_t) { return HuggingFaceValue("h.0.attn.c_proj.bias", row); }),
            0);

  const spec::ModelSpec llama = TinyLlama();
  tensors = test::LlamaTensors(llama, "model.");
  tensors.push_back({"model.layers.1.self_attn.rotary_emb.inv_freq", {3}});
  test::WriteHuggingFaceFolder(folder.Path("llama"), llama, tensors);
  RankState llama_rank(llama, Layout(1, 1, 1), {});
  LoadHuggingFaceWeights(folder.Path("llama"), llama, llama_rank.state());
}

// A file whose only tensors are the model's and a stored head of the given rows.
void WriteWithHead(const std::string& folder, const spec::ModelSpec& model, float change) {
  TensorList tensors = test::TensorsOf(model);
  tensors.push_back({"lm_head.weight", {model.vocab_size, model.hidden_size}});
  MakeFolders(folder);
  SafetensorsModelWriter writer(folder, tensors);
  for (const TensorDeclaration& tensor : tensors) {
    const bool is_head = tensor.name == "lm_head.weight";
    std::vector<float> values(static_cast<size_t>(*CheckedNumElements(tensor.shape)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = HuggingFaceValue(is_head ? "model.embed_tokens.weight" : tensor.name,
                                   static_cast<int64_t>(i));
    }
    if (is_head) values[30 * model.hidden_size + 2] += change;
    writer.AppendTensor(values);
  }
  writer.Finish();
}

TEST(HuggingFaceTest, ATiedHeadMayBeStoredWhenItEqualsTheEmbedding) {
  const spec::ModelSpec model = TinyLlama(2, /*tied=*/true);
  const TestFolder folder;
  WriteWithHead(folder.Path("equal"), model, 0);
  RankState rank(model, Layout(1, 1, 1), {});
  LoadHuggingFaceWeights(folder.Path("equal"), model, rank.state());
  WriteWithHead(folder.Path("other"), model, 1);
  EXPECT_THAT(
      ConfigErrorOf([&] { LoadHuggingFaceWeights(folder.Path("other"), model, rank.state()); }),
      AllOf(HasSubstr("lm_head.weight"), HasSubstr("row 30")));
}

TEST(HuggingFaceTest, TensorsThatDoNotFitTheModelAreListed) {
  const spec::ModelSpec model = TinyLlama();
  const TestFolder folder;
  TensorList tensors = test::TensorsOf(model);
  std::erase_if(tensors, [](const TensorDeclaration& tensor) {
    return tensor.name == "model.layers.1.mlp.up_proj.weight";
  });
  tensors.push_back({"model.layers.4.mlp.up_proj.weight", {28, 12}});
  for (TensorDeclaration& tensor : tensors) {
    if (tensor.name == "model.norm.weight") tensor.shape = {3, 4};
  }
  test::WriteHuggingFaceFolder(folder.Path("hf"), model, tensors);
  RankState rank(model, Layout(2, 2, 1), {.tensor = 1, .pipeline = 1});
  EXPECT_THAT(
      ConfigErrorOf([&] { LoadHuggingFaceWeights(folder.Path("hf"), model, rank.state()); }),
      AllOf(HasSubstr(folder.Path("hf")), HasSubstr("missing: model.layers.1.mlp.up_proj.weight"),
            HasSubstr("unknown: model.layers.4.mlp.up_proj.weight"),
            HasSubstr("model.norm.weight F32 [3, 4] for [12]")));
}

TEST(HuggingFaceTest, BFloat16FilesAreReadExactly) {
  // One layer's worth of norms is enough: the rest takes the same path.
  const spec::ModelSpec model = TinyLlama();
  const TestFolder folder;
  const TensorList tensors = test::TensorsOf(model);
  std::vector<SafetensorsTensor> entries;
  std::string data;
  for (const TensorDeclaration& tensor : tensors) {
    SafetensorsTensor& entry = entries.emplace_back();
    entry.name = tensor.name;
    entry.shape = tensor.shape;
    entry.type = SafetensorsType::kBF16;
    for (int64_t i = 0; i < *CheckedNumElements(tensor.shape); ++i) {
      data += test::Bytes<uint16_t>(0x3F80 + i % 128);  // 1 + i / 128
    }
  }
  folder.Write("model.safetensors", BuildSafetensorsHeader(entries, {}) + data);
  RankState rank(model, Layout(2, 1, 1), {.tensor = 1});
  LoadHuggingFaceWeights(folder.Path(""), model, rank.state());
  const int64_t columns = model.num_attention_heads * model.head_dim;
  EXPECT_GT(CheckParameter(rank, "layers.2.attention.output.weight",
                           [&](int64_t row, int64_t column) {
                             return 1 + static_cast<float>((row * columns + column) % 128) / 128;
                           }),
            0);
}

TEST(HuggingFaceTest, AModelOfNoFamilyIsRefusedBeforeAnythingIsWritten) {
  spec::ModelSpec model = TinyLlama();
  model.norm = spec::NormKind::kLayerNorm;
  const TestFolder folder;
  RankState rank(model, Layout(1, 1, 1), {});
  rank.Fill(1);
  EXPECT_THAT(ConfigErrorOf([&] {
                testing::RunRanks(1, [&](Communicator& world) {
                  ExportHuggingFaceModel(rank.state(), model, world, folder.Path("out"));
                });
              }),
              HasSubstr("layernorm"));
  EXPECT_EQ(folder.NumFiles(), 0u);
}

}  // namespace
}  // namespace tessera::engine
