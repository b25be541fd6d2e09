#include "engine/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "cost_model/base/error.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::Bytes;
using test::ConfigErrorOf;
using test::ReadFile;
using test::TestFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file as the format's definition has it: length, JSON, data.
std::string FileOf(const std::string& json, const std::string& data) {
  return Bytes<uint64_t>(json.size()) + json + data;
}

std::vector<float> Floats(const SafetensorsSet& set, const std::string& name) {
  const TensorView* const view = set.Find(name);
  EXPECT_NE(view, nullptr) << name;
  std::vector<float> floats(static_cast<size_t>(view->tensor->NumElements()));
  ReadFloats(*view, 0, view->tensor->NumElements(), floats.data());
  return floats;
}

TEST(SafetensorsTest, ReadsWhatTheFormatSays) {
  const TestFolder folder;
  const std::string path = folder.Write(
      "a.safetensors", FileOf(R"({"__metadata__":{"format":"pt"},)"
                              R"("b":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]},)"
                              R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                              R"("none":{"dtype":"I64","shape":[0,3],"data_offsets":[20,20]},)"
                              R"("scalar":{"dtype":"F16","shape":[],"data_offsets":[20,22]}}   )",
                              // bf16 1.5 and -2, as the upper halves of their fp32 bits
                              Bytes<uint16_t>(0x3FC0, 0xC000) +
                                  Bytes<float>(1.0f, 2.0f, 3.0f, 4.0f) + Bytes<uint16_t>(0x3555)));
  const SafetensorsSet set(path);
  EXPECT_EQ(set.files().front()->header().metadata.at("format"), "pt");
  EXPECT_THAT(Floats(set, "a"), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(Floats(set, "b"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(set.Find("b")->tensor->shape, ElementsAre(2, 2));
  EXPECT_THAT(set.Find("none")->tensor->shape, ElementsAre(0, 3));
  EXPECT_THAT(Floats(set, "scalar"), ElementsAre(0x1.554p-2f));  // the fp16 next to 1/3
  float middle[2];
  ReadFloats(*set.Find("b"), 1, 2, middle);
  EXPECT_THAT(middle, ElementsAre(2, 3));
}

// The value of fp16 bits by the definition of IEEE 754.
double Float16Value(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1F;
  const double fraction = (bits & 0x3FF) / 1024.0;
  if (exponent == 0x1F) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -14)
                       : sign * std::ldexp(1 + fraction, exponent - 15);
}

TEST(SafetensorsTest, EveryFloat16BecomesItsExactValue) {
  std::string data;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) data += Bytes<uint16_t>(bits);
  const TestFolder folder;
  const SafetensorsSet set(folder.Write(
      "h.safetensors",
      FileOf(R"({"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})", data)));
  const std::vector<float> values = Floats(set, "h");
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double expected = Float16Value(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(values[bits])) << bits;
    } else {
      EXPECT_EQ(values[bits], expected) << bits;
      EXPECT_EQ(std::signbit(values[bits]), std::signbit(expected)) << bits;
    }
  }
}

TEST(SafetensorsTest, WhatIsWrittenIsReadBack) {
  const TestFolder folder;
  const std::string path = folder.Path("w.safetensors");
  SafetensorsWriter writer(path, {{"z", {2, 3}}, {"a", {1}}, {"empty", {0}}});
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7};
  writer.Append(std::span(values).first(4));  // calls need not keep to tensors
  EXPECT_THAT(ListFolder(folder.Path("")), ::testing::Not(::testing::Contains("w.safetensors")));
  writer.Append(std::span(values).subspan(4));
  writer.Finish();
  EXPECT_THAT(ListFolder(folder.Path("")), ElementsAre("w.safetensors"));
  const SafetensorsSet set(path);
  EXPECT_THAT(Floats(set, "z"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Floats(set, "a"), ElementsAre(7));
  EXPECT_EQ(set.files().front()->header().metadata.at("format"), "pt");
  EXPECT_EQ(set.files().front()->header().data_begin_bytes % 8, 0);
}

TEST(SafetensorsTest, AnUnfinishedFileLeavesNothing) {
  const TestFolder folder;
  {
    SafetensorsWriter writer(folder.Path("w.safetensors"), {{"a", {2}}});
    writer.Append(std::vector<float>{1});
  }
  EXPECT_EQ(folder.NumFiles(), 0u);
}

TEST(SafetensorsTest, ALargeModelIsShardedWithAnIndex) {
  const TestFolder folder;
  folder.Write("tokenizer.json", "{}");
  const std::vector<TensorDeclaration> tensors = {{"a", {4}}, {"b", {3}}, {"c", {9}}, {"d", {1}}};
  const auto write = [&](int64_t max_shard_bytes) {
    SafetensorsModelWriter writer(folder.Path(""), tensors, max_shard_bytes);
    float next = 0;
    for (const TensorDeclaration& tensor : tensors) {
      std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
      for (float& value : values) value = next++;
      writer.AppendTensor(values);
    }
    writer.Finish();
  };
  const auto check = [&] {
    const SafetensorsSet set(folder.Path(""));
    EXPECT_EQ(set.tensors().size(), 4u);
    EXPECT_THAT(Floats(set, "b"), ElementsAre(4, 5, 6));
    EXPECT_THAT(Floats(set, "d"), ElementsAre(16));
  };
  write(28);  // bytes: a and b fit, c is larger than any shard may be, d is left
  EXPECT_THAT(ListFolder(folder.Path("")),
              ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors", "model.safetensors.index.json",
                          "tokenizer.json"));
  EXPECT_THAT(ReadFile(folder.Path("model.safetensors.index.json")),
              HasSubstr("\"total_size\": 68"));
  check();
  write(1000);
  EXPECT_THAT(ListFolder(folder.Path("")), ElementsAre("model.safetensors", "tokenizer.json"));
  check();
}

TEST(SafetensorsTest, AnIndexMustNameWhatIsThere) {
  const TestFolder folder;
  folder.Write("s.safetensors",
               FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"));
  const auto error_of = [&](const std::string& index) {
    folder.Write("model.safetensors.index.json", index);
    return ConfigErrorOf([&] { SafetensorsSet set(folder.Path("")); });
  };
  EXPECT_EQ(error_of(R"({"metadata":{},"weight_map":{"a":"s.safetensors"}})"), "no error");
  EXPECT_THAT(error_of(R"({"weight_map":{"b":"s.safetensors"}})"),
              AllOf(HasSubstr("index.json"), HasSubstr("tensor 'b'")));
  EXPECT_THAT(error_of(R"({"weight_map":{"a":"t.safetensors"}})"),
              AllOf(HasSubstr("t.safetensors"), HasSubstr("readable file")));
  EXPECT_THAT(error_of(R"({"weight_map":{"a":"../s.safetensors"}})"), HasSubstr("/weight_map/a"));
  EXPECT_THAT(error_of(R"({"weight_map":{"a":7}})"), HasSubstr("/weight_map/a"));
  EXPECT_THAT(error_of(R"({"weight_map":{}})"), HasSubstr("/weight_map"));
  EXPECT_THAT(error_of(R"({"weight_map":)"), HasSubstr("broken JSON"));
  folder.Write("t.safetensors", ReadFile(folder.Path("s.safetensors")));
  EXPECT_THAT(error_of(R"({"weight_map":{"a":"s.safetensors","b":"t.safetensors"}})"),
              AllOf(HasSubstr("t.safetensors"), HasSubstr("again")));
}

struct BadFile {
  const char* what;
  std::string bytes;
  std::vector<std::string> told;
};

std::vector<BadFile> BadFiles() {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  const std::string four(4, 'x');
  const std::string good = one("\"F32\"", "[1]", "[0,4]");
  return {
      {"empty", "", {"offset 0", "0 bytes"}},
      {"five bytes", "abcde", {"5 bytes"}},
      {"a length of 2^63", Bytes<uint64_t>(1ull << 63) + good, {"header length"}},
      {"a length above the limit", Bytes<uint64_t>(100'000'001) + good, {"100000000"}},
      {"a length beyond the file", Bytes<uint64_t>(good.size() + 5) + good + four, {"truncated"}},
      {"no header", FileOf("", four), {"offset 8"}},
      {"no object", FileOf("[]", four), {"offset 8"}},
      {"broken JSON", FileOf(R"({"w":)", four), {"broken JSON", "offset 1"}},
      {"text behind", FileOf(good + "x", four), {"broken JSON"}},
      {"no UTF-8", FileOf("{\"\xFF\":{}}", four), {"broken JSON"}},
      {"deep nesting", FileOf("{\"w\":" + std::string(100'000, '['), four), {"tensor 'w'"}},
      {"not an object", FileOf(R"({"w":7})", four), {"tensor 'w'"}},
      {"no dtype", FileOf(R"({"w":{"shape":[1],"data_offsets":[0,4]}})", four), {"no dtype"}},
      {"no shape", FileOf(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", four), {"no shape"}},
      {"no offsets", FileOf(R"({"w":{"dtype":"F32","shape":[1]}})", four), {"no data_offsets"}},
      {"unknown key", FileOf(R"({"w":{"type":"F32"}})", four), {"'type'", "tensor 'w'"}},
      {"unknown dtype", FileOf(one("\"F31\"", "[1]", "[0,4]"), four), {"F31", "tensor 'w'"}},
      {"dtype of a number", FileOf(one("32", "[1]", "[0,4]"), four), {"tensor 'w'", "under dtype"}},
      {"negative size", FileOf(one("\"F32\"", "[-1]", "[0,4]"), four), {"found -1"}},
      {"fraction", FileOf(one("\"F32\"", "[1.5]", "[0,4]"), four), {"found 1.5"}},
      {"size of 2^64",
       FileOf(one("\"F32\"", "[18446744073709551616]", "[0,4]"), four),
       {"tensor 'w'"}},
      {"size of 2^63",
       FileOf(one("\"F32\"", "[9223372036854775808]", "[0,4]"), four),
       {"tensor 'w'"}},
      {"product beyond 2^63",
       FileOf(one("\"F32\"", "[4294967296,4294967296,4294967296]", "[0,4]"), four),
       {"tensor 'w'", "[0, 4]"}},
      {"bytes beyond 2^63",
       FileOf(one("\"F32\"", "[4611686018427387904]", "[0,4]"), four),
       {"tensor 'w'"}},
      {"shape of other bytes",
       FileOf(one("\"F32\"", "[2]", "[0,4]"), four),
       {"tensor 'w'", "[2]", "4 bytes"}},
      {"range beyond the file",
       FileOf(one("\"F32\"", "[2]", "[0,8]"), four),
       {"tensor 'w'", "[0, 8]", "truncated"}},
      {"range backwards", FileOf(one("\"F32\"", "[1]", "[4,0]"), four), {"tensor 'w'", "[4, 0]"}},
      {"one offset", FileOf(one("\"F32\"", "[1]", "[4]"), four), {"tensor 'w'"}},
      {"three offsets", FileOf(one("\"F32\"", "[1]", "[0,4,4]"), four), {"tensor 'w'"}},
      {"a hole before",
       FileOf(one("\"F32\"", "[1]", "[4,8]"), four + four),
       {"tensor 'w'", "gaps"}},
      {"data behind", FileOf(good, four + four), {"4 bytes that belong to no tensor"}},
      {"overlap",
       FileOf(R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("w":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
              "123456"),
       {"tensor 'w'", "overlaps"}},
      {"a name twice",
       FileOf(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
              R"("w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
              "12"),
       {"tensor 'w'", "twice"}},
      {"metadata of numbers", FileOf(R"({"__metadata__":{"a":1}})", ""), {"__metadata__"}},
      {"a name with a line break",
       FileOf(R"({"a\nb":{"dtype":"F32","shape":[3],"data_offsets":[0,4]}})", four),
       {"a\\x0ab"}},
  };
}

TEST(SafetensorsTest, BrokenFilesAreRefusedWithFileAndPlace) {
  const TestFolder folder;
  for (const BadFile& bad : BadFiles()) {
    const std::string path = folder.Write("bad.safetensors", bad.bytes);
    const std::string message = ConfigErrorOf([&] { SafetensorsFile file(path); });
    EXPECT_THAT(message, HasSubstr(path)) << bad.what;
    EXPECT_EQ(message.find('\n'), std::string::npos) << bad.what;
    for (const std::string& text : bad.told) EXPECT_THAT(message, HasSubstr(text)) << bad.what;
  }
}

std::string SmallGoodFile() {
  return FileOf(R"({"__metadata__":{"format":"pt"},)"
                R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})",
                std::string(22, 'x'));
}

// Reads all there is; whatever is wrong must be a ConfigError.
void ReadAll(const std::string& path) {
  try {
    const SafetensorsSet set(path);
    for (const auto& [name, view] : set.tensors()) {
      if (IsFloatType(view.tensor->type)) Floats(set, name);
    }
  } catch (const base::ConfigError&) {
  }
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const TestFolder folder;
  const std::string good = SmallGoodFile();
  for (size_t size = 0; size < good.size(); ++size) {
    const std::string path = folder.Write("cut.safetensors", good.substr(0, size));
    EXPECT_THAT(ConfigErrorOf([&] { SafetensorsFile file(path); }), HasSubstr(path)) << size;
  }
  SafetensorsFile file(folder.Write("whole.safetensors", good));
}

TEST(SafetensorsTest, NoFlippedBitsCrashTheReader) {
  const TestFolder folder;
  const std::string good = SmallGoodFile();
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      ReadAll(folder.Write("flipped.safetensors", bad));
    }
  }
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    for (int i = 0; i < 3; ++i) bad[random() % bad.size()] = static_cast<char>(random());
    ReadAll(folder.Write("random.safetensors", bad));
  }
}

TEST(SafetensorsTest, AMissingFileOrAFolderWithoutModelIsNamed) {
  const TestFolder folder;
  EXPECT_THAT(ConfigErrorOf([&] { SafetensorsSet set(folder.Path("absent.safetensors")); }),
              AllOf(HasSubstr("absent.safetensors"), HasSubstr("readable file")));
  EXPECT_THAT(ConfigErrorOf([&] { SafetensorsSet set(folder.Path("")); }),
              AllOf(HasSubstr(folder.Path("")), HasSubstr("model.safetensors.index.json")));
}

TEST(SafetensorsTest, OffsetsBeyondFourGigabytesAreKept) {
  // A sparse file: the tensor behind 5 GiB of zeros must be found.
  const TestFolder folder;
  const int64_t big = int64_t{5} << 30;
  const std::string json = R"({"big":{"dtype":"U8","shape":[)" + std::to_string(big) +
                           R"(],"data_offsets":[0,)" + std::to_string(big) +
                           R"(]},"end":{"dtype":"F32","shape":[1],"data_offsets":[)" +
                           std::to_string(big) + "," + std::to_string(big + 4) + "]}}";
  const std::string path = folder.Write("sparse.safetensors", FileOf(json, ""));
  const auto header_bytes = static_cast<int64_t>(8 + json.size());
  std::filesystem::resize_file(path, static_cast<uintmax_t>(header_bytes + big));
  std::ofstream(path, std::ios::binary | std::ios::app) << Bytes<float>(42.0f);
  EXPECT_THAT(Floats(SafetensorsSet(path), "end"), ElementsAre(42));
}

}  // namespace
}  // namespace tessera::engine
