// A Hugging Face config.json, key by key. Internal to the import.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cost_model/spec/field_reader_json.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::spec {

inline bool IsNull(const nlohmann::json* value) { return value == nullptr || value->is_null(); }

// Reads through a FieldReader, whose unread keys are of no interest here; null counts as absent.
class HuggingFaceConfig {
 public:
  HuggingFaceConfig(const nlohmann::json& document, const std::string& file)
      : reader_(document, file, ""), document_(document), file_(file) {}

  bool Has(const std::string& key) const { return document_.contains(key); }
  int64_t Size(const std::string& key) {
    if (IsNull(reader_.Take(key))) {
      reader_.Fail(key, Has(key) ? "null" : "nothing", "an integer of at least 1");
    }
    int64_t value = 0;
    reader_.Integer(key, value, kSizeRange);
    return value;
  }
  int64_t SizeOr(const std::string& key, int64_t fallback) {
    return IsNull(reader_.Take(key)) ? fallback : Size(key);
  }
  int Count(const std::string& key) { return static_cast<int>(Size(key)); }
  double NumberOr(const std::string& key, double value) {
    if (!IsNull(reader_.Take(key))) reader_.Number(key, value, kPositive);
    return value;
  }
  // Of dropout; stays as it is where the key is absent.
  void Dropout(const std::string& key, double& probability) {
    if (!IsNull(reader_.Take(key))) reader_.Number(key, probability, kDropoutRange);
  }
  bool FlagOr(const std::string& key, bool value) {
    if (!IsNull(reader_.Take(key))) reader_.Flag(key, value);
    return value;
  }
  std::string Text(const std::string& key, const std::string& expected) {
    std::string value;
    if (IsNull(reader_.Take(key))) reader_.Fail(key, "nothing", expected);
    reader_.Text(key, value);
    return value;
  }

  // Refuses another value than `only`; absent and null are fine.
  void Only(const std::string& key, const nlohmann::json& only, const std::string& expected) {
    const nlohmann::json* value = reader_.Take(key);
    if (!IsNull(value) && *value != only) reader_.Fail(key, DescribeJson(*value), expected);
  }
  void OnlyText(const std::string& key, const std::vector<std::string>& names) {
    const nlohmann::json* value = reader_.Take(key);
    if (IsNull(value)) return;
    reader_.Name(key, names, 0, Presence::kRequired);
  }
  const nlohmann::json* Optional(const std::string& key) {
    const nlohmann::json* value = reader_.Take(key);
    return IsNull(value) ? nullptr : value;
  }
  [[noreturn]] void Fail(const std::string& key, const std::string& found,
                         const std::string& expected) const {
    reader_.Fail(key, found, expected);
  }
  const std::string& file() const { return file_; }

 private:
  FieldReader reader_;
  const nlohmann::json& document_;
  const std::string& file_;
};

}  // namespace tessera::spec
