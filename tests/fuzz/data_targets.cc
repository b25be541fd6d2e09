// Token files: Megatron's .idx beside a .bin of fixed size, llm.c's.
#include <memory>
#include <vector>

#include "engine/data/sample_source.h"
#include "engine/data/token_store.h"
#include "tests/engine/data_test_files.h"
#include "tests/fuzz/fuzz_target.h"

namespace tessera::fuzz {
namespace {

using engine::test::Bytes;
using engine::test::TestFolder;

// Reads all that training would.
void ReadSamples(const std::string& path) {
  constexpr int64_t kSequenceLength = 4;
  const auto source = engine::OpenSampleSource({.path = path,
                                                .order = engine::DataOrder::kShuffled,
                                                .sequence_length = kSequenceLength,
                                                .num_samples = 10,
                                                .seed = 1});
  source->max_token();
  std::vector<int32_t> tokens(kSequenceLength + 1);
  for (int64_t sample = 0; sample < 10; ++sample) source->Read(sample, tokens.data());
}

// Two sequences of 5 and 3 tokens in two documents, in the .bin's 16 bytes.
std::string Index() {
  return "MMIDIDX" + std::string(2, '\0') + Bytes<uint64_t>(1) + Bytes<uint8_t>(8) +
         Bytes<uint64_t>(2, 3) + Bytes<int32_t>(5, 3) + Bytes<int64_t>(0, 10) +
         Bytes<int64_t>(0, 1, 2);
}

std::string LlmCFile() {
  std::string header = Bytes<int32_t>(20240520, 1, 12);
  header.resize(256 * sizeof(int32_t), '\0');
  for (int token = 0; token < 12; ++token) header += Bytes<uint16_t>(token);
  return header;
}

}  // namespace

std::vector<FuzzTarget> DataTargets() {
  const auto folder = std::make_shared<TestFolder>();
  folder->Write("data.bin", Bytes<uint16_t>(1, 2, 3, 4, 5, 6, 7, 8));
  return {
      {"idx",
       RefusalOf([=](std::string_view bytes) {
         folder->Write("data.idx", bytes);
         ReadSamples(folder->Path("data"));
       }),
       {Index()}},
      {"llmc_tokens",
       RefusalOf([=](std::string_view bytes) { ReadSamples(folder->Write("tokens.llmc", bytes)); }),
       {LlmCFile()}},
      {"raw_tokens",
       RefusalOf([=](std::string_view bytes) { ReadSamples(folder->Write("tokens.i32", bytes)); }),
       {Bytes<int32_t>(1, 2, 3, 4, 5, 6, 7, 8)}}};
}

}  // namespace tessera::fuzz
