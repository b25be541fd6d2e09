#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/spec/strict_json.h"
#include "engine/checkpoint/crc32.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors_header.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;
using JsonValue = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormatName = "tessera-checkpoint";

// Of steps and samples done: far beyond any training, and a run can go on counting from there.
constexpr int64_t kMaxProgress = 1'000'000'000'000'000;

// One JSON object that is read key by key; Done fails for keys that nobody asked for.
class ObjectReader {
 public:
  ObjectReader(const JsonValue& value, std::string pointer, const std::string& path)
      : value_(value), pointer_(std::move(pointer)), path_(path) {
    if (!value.is_object()) Fail("", value.type_name(), "an object");
  }

  const JsonValue& Get(const char* key) {
    const auto found = value_.find(key);
    if (found == value_.end()) Fail(key, "no such key", "a value");
    read_.insert(key);
    return *found;
  }

  // A whole number from 0.
  int64_t GetCount(const char* key) {
    const JsonValue& value = Get(key);
    if (!value.is_number_unsigned() ||
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fail(key, PrintableName(spec::DescribeJson(value)), "a whole number from 0");
    }
    return value.get<int64_t>();
  }

  // Steps or samples.
  int64_t GetProgress(const char* key) {
    const int64_t value = GetCount(key);
    if (value > kMaxProgress) Fail(key, Concat(value), Concat("at most ", kMaxProgress));
    return value;
  }

  // What fp16 multiplies its loss with: none as 0.
  double GetLossScale(const char* key) {
    const JsonValue& value = Get(key);
    const bool is_scale = value.is_number() &&
                          (value.get<double>() == 0 || value.get<double>() >= 1) &&
                          value.get<double>() <= std::numeric_limits<float>::max();
    if (!is_scale) Fail(key, PrintableName(spec::DescribeJson(value)), "a number from 1, or 0");
    return value.get<double>();
  }

  uint64_t GetUnsigned(const char* key) {
    const JsonValue& value = Get(key);
    if (!value.is_number_unsigned()) {
      Fail(key, PrintableName(spec::DescribeJson(value)), "a whole number from 0");
    }
    return value.get<uint64_t>();
  }

  std::string GetString(const char* key) {
    const JsonValue& value = Get(key);
    if (!value.is_string()) Fail(key, value.type_name(), "a string");
    return value.get<std::string>();
  }

  uint32_t GetCrc32(const char* key) {
    const std::string text = GetString(key);
    uint64_t value = 0;
    for (const char c : text) {
      const size_t digit = std::string_view("0123456789abcdef").find(c);
      if (digit == std::string_view::npos || text.size() != 8) {
        Fail(key, PrintableName(text), "eight hexadecimal digits");
      }
      value = value * 16 + digit;
    }
    if (Crc32Text(static_cast<uint32_t>(value)) != text) {
      Fail(key, PrintableName(text), "eight hexadecimal digits");
    }
    return static_cast<uint32_t>(value);
  }

  // Calls read(element) for each object of an array.
  template <typename Read>
  void ForEachObject(const char* key, const Read& read) {
    const JsonValue& value = Get(key);
    if (!value.is_array()) Fail(key, value.type_name(), "an array");
    for (size_t i = 0; i < value.size(); ++i) {
      ObjectReader element(value[i], Concat(pointer_, "/", key, "/", i), path_);
      read(element);
      element.Done();
    }
  }

  void Done() const {
    for (const auto& [key, value] : value_.items()) {
      if (!read_.contains(key)) Fail(PrintableName(key), "an unknown key", "none");
    }
  }

  [[noreturn]] void Fail(const std::string& key, const std::string& found,
                         const std::string& expected) const {
    throw ConfigError(path_, key.empty() ? pointer_ : Concat(pointer_, "/", key), found, expected);
  }

 private:
  const JsonValue& value_;
  const std::string pointer_;
  const std::string& path_;
  std::set<std::string> read_;
};

CheckpointFile ReadFile(ObjectReader& object) {
  CheckpointFile file = {.name = object.GetString("name"),
                         .size_bytes = object.GetCount("size_bytes"),
                         .header_crc32 = object.GetCrc32("header_crc32")};
  if (!IsPlainFileName(file.name)) {
    object.Fail("name", PrintableName(file.name), "the name of a file in the checkpoint");
  }
  return file;
}

CheckpointParameter ReadParameter(ObjectReader& object) {
  CheckpointParameter parameter = {.name = object.GetString("name"), .shape = {}};
  const JsonValue& shape = object.Get("shape");
  if (!shape.is_array()) object.Fail("shape", shape.type_name(), "an array");
  for (const JsonValue& size : shape) {
    if (!size.is_number_unsigned()) {
      object.Fail("shape", PrintableName(spec::DescribeJson(size)), "whole numbers from 0");
    }
    parameter.shape.push_back(size.get<int64_t>());
  }
  return parameter;
}

int GetInt(ObjectReader& object, const char* key) {
  const int64_t value = object.GetCount(key);
  if (value > std::numeric_limits<int>::max()) object.Fail(key, Concat(value), "a small number");
  return static_cast<int>(value);
}

Piece ReadPiece(ObjectReader& object) {
  Piece piece;
  piece.parameter = object.GetString("parameter");
  const std::string kind_text = object.GetString("kind");
  const std::optional<StateKind> kind = StateKindFromString(kind_text);
  if (!kind) object.Fail("kind", PrintableName(kind_text), "weight, m or v");
  piece.kind = *kind;
  piece.file = GetInt(object, "file");
  piece.part.dim = GetInt(object, "dim");
  piece.part.begin = object.GetCount("begin");
  piece.part.size = piece.part.stored_size = object.GetCount("size");
  piece.part.first = object.GetCount("first");
  piece.part.count = object.GetCount("count");
  piece.crc32 = object.GetCrc32("crc32");
  return piece;
}

RecentSteps ReadRecent(ObjectReader& object) {
  RecentSteps recent{.losses = {}, .num_skipped_in_a_row = object.GetProgress("skipped_in_a_row")};
  const JsonValue& losses = object.Get("recent_losses");
  if (!losses.is_array()) object.Fail("recent_losses", losses.type_name(), "an array");
  for (const JsonValue& loss : losses) {
    if (!loss.is_number()) {
      object.Fail("recent_losses", PrintableName(spec::DescribeJson(loss)), "numbers");
    }
    recent.losses.push_back(loss.get<double>());
  }
  return recent;
}

TrainProgress ReadProgress(ObjectReader& object, int64_t format_version) {
  TrainProgress progress = {.step = object.GetProgress("step"),
                            .consumed_samples = object.GetProgress("consumed_samples")};
  if (format_version == kOldestCheckpointFormatVersion) return progress;
  progress.num_skipped_steps = object.GetProgress("num_skipped_steps");
  if (progress.num_skipped_steps > progress.step) {
    object.Fail("num_skipped_steps", Concat(progress.num_skipped_steps),
                Concat("at most the steps done, ", progress.step));
  }
  progress.loss_scale = {.value = object.GetLossScale("loss_scale"),
                         .num_good_steps = object.GetProgress("loss_scale_good_steps")};
  if (format_version >= 3) progress.recent = ReadRecent(object);
  return progress;
}

OrderedJson ToJson(const Piece& piece) {
  return {{"parameter", piece.parameter},
          {"kind", ToString(piece.kind)},
          {"file", piece.file},
          {"dim", piece.part.dim},
          {"begin", piece.part.begin},
          {"size", piece.part.size},
          {"first", piece.part.first},
          {"count", piece.part.count},
          {"crc32", Crc32Text(piece.crc32)}};
}

}  // namespace

std::string WriteManifest(const Manifest& manifest) {
  const TrainProgress& progress = manifest.progress;
  OrderedJson files = OrderedJson::array();
  for (const CheckpointFile& file : manifest.files) {
    files.push_back(OrderedJson{{"name", file.name},
                                {"size_bytes", file.size_bytes},
                                {"header_crc32", Crc32Text(file.header_crc32)}});
  }
  OrderedJson parameters = OrderedJson::array();
  for (const CheckpointParameter& parameter : manifest.parameters) {
    parameters.push_back(OrderedJson{{"name", parameter.name}, {"shape", parameter.shape}});
  }
  OrderedJson pieces = OrderedJson::array();
  for (const Piece& piece : manifest.pieces) pieces.push_back(ToJson(piece));
  const OrderedJson document = {{"format", kFormatName},
                                {"format_version", kCheckpointFormatVersion},
                                {"step", progress.step},
                                {"num_skipped_steps", progress.num_skipped_steps},
                                {"consumed_samples", progress.consumed_samples},
                                {"loss_scale", progress.loss_scale.value},
                                {"loss_scale_good_steps", progress.loss_scale.num_good_steps},
                                {"skipped_in_a_row", progress.recent.num_skipped_in_a_row},
                                {"recent_losses", progress.recent.losses},
                                {"seed", manifest.seed},
                                {"training", manifest.training},
                                {"files", std::move(files)},
                                {"parameters", std::move(parameters)},
                                {"pieces", std::move(pieces)}};
  return document.dump(1) + "\n";
}

Manifest ParseManifest(const std::string& text, const std::string& path) {
  const JsonValue document =
      JsonValue::parse(text, /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) throw ConfigError(path, "", "broken JSON", "a manifest");
  ObjectReader object(document, "", path);
  if (object.GetString("format") != kFormatName) {
    object.Fail("format", PrintableName(object.GetString("format")), kFormatName);
  }
  const int64_t version = object.GetCount("format_version");
  if (version < kOldestCheckpointFormatVersion || version > kCheckpointFormatVersion) {
    object.Fail("format_version", Concat(version),
                Concat(kOldestCheckpointFormatVersion, " to ", kCheckpointFormatVersion));
  }
  Manifest manifest = {.progress = ReadProgress(object, version),
                       .seed = object.GetUnsigned("seed"),
                       .training = object.GetString("training"),
                       .files = {},
                       .parameters = {},
                       .pieces = {}};
  object.ForEachObject("files",
                       [&](ObjectReader& each) { manifest.files.push_back(ReadFile(each)); });
  object.ForEachObject("parameters", [&](ObjectReader& each) {
    manifest.parameters.push_back(ReadParameter(each));
  });
  object.ForEachObject("pieces",
                       [&](ObjectReader& each) { manifest.pieces.push_back(ReadPiece(each)); });
  object.Done();
  return manifest;
}

void RequireSameModel(const spec::ModelSpec& found, const spec::ModelSpec& expected,
                      const std::string& path) {
  spec::ModelSpec comparable = expected;
  comparable.name = found.name;
  comparable.init_standard_deviation = found.init_standard_deviation;
  if (comparable == found) return;
  const JsonValue found_keys = JsonValue::parse(spec::WriteModel(found)).flatten();
  const JsonValue expected_keys = JsonValue::parse(spec::WriteModel(comparable)).flatten();
  for (const auto& [key, value] : expected_keys.items()) {
    const auto other = found_keys.find(key);
    if (other == found_keys.end() || *other != value) {
      throw ConfigError(path, key, other == found_keys.end() ? "no such key" : other->dump(),
                        value.dump() + " (the model of this run)");
    }
  }
  for (const auto& [key, value] : found_keys.items()) {
    if (!expected_keys.contains(key)) {
      throw ConfigError(path, key, value.dump(), "no such key (the model of this run)");
    }
  }
  TESSERA_CHECK(false, path, ": models differ in a key that WriteModel leaves out");
}

}  // namespace tessera::engine
