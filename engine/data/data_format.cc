#include "engine/data/data_format.h"

#include <array>
#include <filesystem>

#include "cost_model/base/error.h"
#include "engine/data/indexed_dataset.h"
#include "engine/data/indexed_dataset_format.h"
#include "engine/data/token_file.h"

namespace tessera::engine {
namespace {

constexpr std::array kFormats = {DataFormat::kAuto,   DataFormat::kIndexed, DataFormat::kRawU8,
                                 DataFormat::kRawU16, DataFormat::kRawI32,  DataFormat::kLlmC};

struct Ending {
  std::string_view text;
  DataFormat format;
};

constexpr std::array<Ending, 4> kEndings = {{{".u8", DataFormat::kRawU8},
                                             {".txt", DataFormat::kRawU8},
                                             {".u16", DataFormat::kRawU16},
                                             {".i32", DataFormat::kRawI32}}};

}  // namespace

std::string_view ToString(DataFormat format) {
  switch (format) {
    case DataFormat::kAuto:
      return "auto";
    case DataFormat::kIndexed:
      return "idx";
    case DataFormat::kRawU8:
      return "raw-u8";
    case DataFormat::kRawU16:
      return "raw-u16";
    case DataFormat::kRawI32:
      return "raw-i32";
    case DataFormat::kLlmC:
      return "llmc";
  }
  return "?";
}

std::string_view ToString(DataOrder order) {
  return order == DataOrder::kShuffled ? "shuffled" : "sequential";
}

DataFormat DataFormatFromString(std::string_view name) {
  for (const DataFormat format : kFormats) {
    if (name == ToString(format)) return format;
  }
  throw base::ConfigError("data format", "", std::string(name),
                          "auto, idx, raw-u8, raw-u16, raw-i32 or llmc");
}

DataOrder DataOrderFromString(std::string_view name) {
  for (const DataOrder order : {DataOrder::kShuffled, DataOrder::kSequential}) {
    if (name == ToString(order)) return order;
  }
  throw base::ConfigError("data order", "", std::string(name), "shuffled or sequential");
}

DataFormat DetectDataFormat(const std::string& path) {
  const bool names_an_index = path.ends_with(".idx");
  if (names_an_index || std::filesystem::exists(IndexedPathsOf(path).idx)) {
    return DataFormat::kIndexed;
  }
  if (HasLlmCMagic(MappedFile(path))) return DataFormat::kLlmC;
  for (const Ending& ending : kEndings) {
    if (path.ends_with(ending.text)) return ending.format;
  }
  throw base::ConfigError(path, "", "no .idx file beside it, no known magic number or file ending",
                          "a data format given by name: idx, raw-u8, raw-u16, raw-i32 or llmc");
}

std::unique_ptr<TokenStore> OpenTokenStore(const std::string& path, DataFormat format) {
  switch (format) {
    case DataFormat::kAuto:
      return OpenTokenStore(path, DetectDataFormat(path));
    case DataFormat::kIndexed:
      return std::make_unique<IndexedDataset>(path);
    case DataFormat::kRawU8:
      return OpenRawTokenFile(path, TokenType::kUInt8);
    case DataFormat::kRawU16:
      return OpenRawTokenFile(path, TokenType::kUInt16);
    case DataFormat::kRawI32:
      return OpenRawTokenFile(path, TokenType::kInt32);
    case DataFormat::kLlmC:
      return OpenLlmCTokenFile(path);
  }
  base::FailCheck(__FILE__, __LINE__, "known format", static_cast<int>(format));
}

}  // namespace tessera::engine
