#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "engine/checkpoint/safetensors_header.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;
using JsonValue = nlohmann::json;

constexpr int64_t kDataAlignmentBytes = 8;
constexpr const char* kMetadataKey = "__metadata__";

// Builds the header while the text is parsed. No document in between: a hostile header of 100 MB
// must not cost gigabytes, and repeated keys, which a document would hide, are seen.
class HeaderHandler final : public nlohmann::json_sax<JsonValue> {
 public:
  explicit HeaderHandler(const std::string& path) : path_(path) {}

  SafetensorsHeader Take() { return std::move(header_); }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kOutside:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        if (key_ == kMetadataKey) {
          if (has_metadata_) Fail("the key twice", "each key once");
          has_metadata_ = true;
          place_ = Place::kMetadata;
        } else {
          header_.tensors.emplace_back().name = key_;
          has_type_ = has_shape_ = false;
          offsets_.clear();
          place_ = Place::kTensor;
        }
        return true;
      default:
        Fail("an object", Expected());
    }
  }

  bool key(std::string& text) override {
    if (place_ == Place::kTop) {
      key_ = text;
    } else {
      inner_key_ = text;
    }
    if (place_ == Place::kTensor && inner_key_ != "dtype" && inner_key_ != "shape" &&
        inner_key_ != "data_offsets") {
      Fail(Concat("key '", PrintableName(inner_key_), "'"), "dtype, shape and data_offsets");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (!has_type_) Fail("no dtype", "dtype, shape and data_offsets");
      if (!has_shape_) Fail("no shape", "dtype, shape and data_offsets");
      if (offsets_.size() != 2) Fail("no data_offsets", "dtype, shape and data_offsets");
      header_.tensors.back().begin_bytes = offsets_[0];
      header_.tensors.back().end_bytes = offsets_[1];
    }
    place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kTensor && inner_key_ == "shape" && !has_shape_) {
      has_shape_ = true;
      place_ = Place::kShape;
    } else if (place_ == Place::kTensor && inner_key_ == "data_offsets" && offsets_.empty()) {
      place_ = Place::kOffsets;
    } else {
      Fail("an array", Expected());
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_.size() != 2) {
      Fail(Concat(offsets_.size(), " data_offsets"), "two");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) Fail("a number", Expected());
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fail(Concat(value), "a number below 2^63");
    }
    const auto number = static_cast<int64_t>(value);
    if (place_ == Place::kShape) {
      header_.tensors.back().shape.push_back(number);
    } else {
      if (offsets_.size() == 2) Fail("more than two data_offsets", "two");
      offsets_.push_back(number);
    }
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::kMetadata) {
      if (!header_.metadata.emplace(inner_key_, text).second) {
        Fail(Concat("key '", PrintableName(inner_key_), "' twice"), "each key once");
      }
      return true;
    }
    if (place_ != Place::kTensor || inner_key_ != "dtype" || has_type_) {
      Fail("a string", Expected());
    }
    const std::optional<SafetensorsType> type = SafetensorsTypeFromString(text);
    if (!type) Fail(Concat("dtype '", PrintableName(text), "'"), "a dtype such as F32 or BF16");
    header_.tensors.back().type = *type;
    has_type_ = true;
    return true;
  }

  bool number_integer(number_integer_t value) override { Fail(Concat(value), Expected()); }
  bool number_float(number_float_t, const std::string& text) override {
    Fail(PrintableName(text), Expected());
  }
  bool null() override { Fail("null", Expected()); }
  bool boolean(bool value) override { Fail(value ? "true" : "false", Expected()); }
  bool binary(binary_t&) override { Fail("binary data", Expected()); }

  bool parse_error(size_t position, const std::string&, const JsonValue::exception&) override {
    throw ConfigError(path_, Concat("offset ", kHeaderLengthBytes + static_cast<int64_t>(position)),
                      "broken JSON in the header", "a safetensors header");
  }

 private:
  enum class Place { kOutside, kTop, kTensor, kMetadata, kShape, kOffsets };

  std::string Expected() const {
    switch (place_) {
      case Place::kOutside:
        return "one object";
      case Place::kTop:
        return "an object";
      case Place::kMetadata:
        return "a string";
      case Place::kShape:
      case Place::kOffsets:
        return "a whole number from 0";
      case Place::kTensor:
        break;
    }
    if (inner_key_ == "dtype") return "one string under dtype";
    return Concat("one array of whole numbers under ", inner_key_);
  }

  [[noreturn]] void Fail(const std::string& found, const std::string& expected) const {
    const std::string key =
        place_ == Place::kOutside ? "header" : Concat("tensor '", PrintableName(key_), "'");
    throw ConfigError(path_, key, found, expected);
  }

  const std::string& path_;
  SafetensorsHeader header_;
  Place place_ = Place::kOutside;
  std::string key_;        // at the top: a tensor or __metadata__
  std::string inner_key_;  // one level below
  bool has_metadata_ = false;
  bool has_type_ = false;
  bool has_shape_ = false;
  std::vector<int64_t> offsets_;
};

}  // namespace

SafetensorsHeader ParseSafetensorsJson(std::string_view text, const std::string& path) {
  HeaderHandler handler(path);
  JsonValue::sax_parse(text.begin(), text.end(), &handler);
  return handler.Take();
}

std::string BuildSafetensorsHeader(const std::vector<SafetensorsTensor>& tensors,
                                   const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  if (!metadata.empty()) document[kMetadataKey] = metadata;
  int64_t end = 0;
  // push_back of pairs: operator[] would search all earlier keys each time.
  auto& members = document.get_ref<nlohmann::ordered_json::object_t&>();
  for (const SafetensorsTensor& tensor : tensors) {
    const std::optional<int64_t> elements = CheckedNumElements(tensor.shape);
    TESSERA_CHECK(elements.has_value(), tensor.name, " ", ShapeText(tensor.shape));
    const int64_t begin = end;
    end += *elements * SizeBytes(tensor.type);
    nlohmann::ordered_json entry = {
        {"dtype", ToString(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    members.push_back({tensor.name, std::move(entry)});
  }
  std::string text = document.dump();
  while ((kHeaderLengthBytes + static_cast<int64_t>(text.size())) % kDataAlignmentBytes != 0)
    text += ' ';
  const uint64_t header_bytes = text.size();
  std::string header(kHeaderLengthBytes, '\0');
  std::memcpy(header.data(), &header_bytes, kHeaderLengthBytes);
  return header + text;
}

}  // namespace tessera::engine
