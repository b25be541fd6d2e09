// safetensors files and their index, and checkpoints whose manifest a stranger wrote.
#include <memory>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/crc32.h"
#include "engine/checkpoint/hugging_face.h"
#include "engine/checkpoint/llmc_model.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "tests/engine/checkpoint_test_state.h"
#include "tests/engine/data_test_files.h"
#include "tests/engine/hugging_face_test_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/run_ranks.h"

namespace tessera::fuzz {
namespace {

using engine::test::ReadFile;
using engine::test::TestFolder;

void ReadTensors(const std::string& path) {
  const engine::SafetensorsFile file(path);
  for (const engine::SafetensorsTensor& tensor : file.header().tensors) {
    if (!engine::IsFloatType(tensor.type)) continue;
    const int64_t count = static_cast<int64_t>(file.Bytes(tensor).size()) / 4;
    std::vector<float> values(static_cast<size_t>(count));
    engine::ReadFloats({.tensor = &tensor, .file = &file}, 0, count, values.data());
  }
}

// Two tensors of 12 and 4 bytes behind a header of 128.
std::string Safetensors() {
  std::string header =
      R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"b":{"dtype":"BF16","shape":[1,2],)"
      R"("data_offsets":[12,16]}})";
  header.resize(128, ' ');
  return engine::test::Bytes<uint64_t>(header.size()) + header + std::string(16, '\1');
}

constexpr char kIndex[] = R"({"metadata": {"total_size": 16},
 "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})";

// A model of llm.c of one layer, of width 2, with one token and one position: 80 elements, and a
// padded row.
std::string LlmCModelFile() {
  std::string file = engine::test::Bytes<int32_t>(20240326, 3, 1, 1, 1, 1, 2, 2);
  file.resize(1024);
  return file + std::string(size_t{4} * (12 * 4 + 13 * 2 + (2 + 1 + 2) * 2), '\1');
}

void ReadLlmCModel(const std::string& path) {
  const engine::LlmCFile file(path);
  std::vector<float> elements;
  for (const engine::CheckpointParameter& each : engine::LlmCParameters(file.model())) {
    elements.resize(static_cast<size_t>(engine::WholeTensor(each.shape).count));
    file.Read(each, elements);
  }
}

// One rank's checkpoint; returns its folder.
std::string SaveTinyCheckpoint(const std::string& save_folder) {
  std::string saved;
  testing::RunRanks(1, [&](engine::Communicator& world) {
    const spec::ModelSpec model = engine::test::TinyGpt2();
    engine::test::RankState rank(model, {}, {});
    rank.FillWithReference();
    saved = SaveCheckpoint(rank.state(), {.model = model, .seed = 1, .training = "a test"}, world,
                           save_folder);
  });
  return saved;
}

// Reads all that the manifest names. COMPLETE says that it is as it was written.
FuzzTarget ManifestTarget() {
  const auto folder = std::make_shared<TestFolder>();
  const std::string checkpoint = SaveTinyCheckpoint(folder->Path("save"));
  const std::string in_folder = "save/" + engine::CheckpointFolderName(0) + "/";
  const std::string complete = ReadFile(checkpoint + "/COMPLETE");
  const std::string model_line = complete.substr(complete.find('\n') + 1);
  const auto read = [=](std::string_view bytes) {
    const std::string manifest(bytes);
    folder->Write(in_folder + "manifest.json", manifest);
    folder->Write(in_folder + "COMPLETE",
                  "manifest.json " + std::to_string(manifest.size()) + " bytes crc32 " +
                      engine::Crc32Text(engine::Crc32(manifest)) + "\n" + model_line);
    engine::CheckpointReader(checkpoint).FindDamage();
  };
  return {"manifest", RefusalOf(read), {ReadFile(checkpoint + "/manifest.json")}};
}

// What says that a save came to its end.
FuzzTarget CompleteTarget() {
  const auto folder = std::make_shared<TestFolder>();
  const std::string checkpoint = SaveTinyCheckpoint(folder->Path("save"));
  const std::string name = "save/" + engine::CheckpointFolderName(0) + "/COMPLETE";
  return {"complete",
          RefusalOf([=](std::string_view bytes) {
            folder->Write(name, bytes);
            engine::CheckpointReader reader(checkpoint);
          }),
          {ReadFile(checkpoint + "/COMPLETE")}};
}

// The weights of a folder whose config.json names a tiny model.
FuzzTarget HuggingFaceTarget() {
  const auto folder = std::make_shared<TestFolder>();
  spec::ModelSpec model = engine::test::TinyLlama();
  model.num_layers = 1;
  model.vocab_size = 5;
  engine::test::WriteHuggingFaceFolder(folder->Path("model"), model,
                                       engine::test::TensorsOf(model));
  const auto read = [=](std::string_view bytes) {
    folder->Write("model/model.safetensors", bytes);
    const engine::HuggingFaceReader reader(folder->Path("model"), model);
    std::vector<float> elements;
    for (const engine::CheckpointParameter& each : engine::CheckpointParameters(model)) {
      const engine::TensorPart whole = engine::WholeTensor(each.shape);
      elements.resize(static_cast<size_t>(whole.count));
      reader.Read(each.name, whole, elements.data());
    }
  };
  return {"hugging_face", RefusalOf(read), {ReadFile(folder->Path("model/model.safetensors"))}};
}

}  // namespace

std::vector<FuzzTarget> CheckpointTargets() {
  const auto folder = std::make_shared<TestFolder>();
  return {
      {"safetensors",
       RefusalOf(
           [=](std::string_view bytes) { ReadTensors(folder->Write("model.safetensors", bytes)); }),
       {Safetensors()}},
      {"safetensors_index",
       RefusalOf([=](std::string_view bytes) {
         engine::ReadSafetensorsIndex(folder->Write("model.safetensors.index.json", bytes));
       }),
       {kIndex}},
      ManifestTarget(),
      CompleteTarget(),
      HuggingFaceTarget(),
      {"llmc_model",
       RefusalOf([=](std::string_view bytes) { ReadLlmCModel(folder->Write("model.bin", bytes)); }),
       {LlmCModelFile()}}};
}

}  // namespace tessera::fuzz
