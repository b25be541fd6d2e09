#include "planner/validation/row_reader_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::planner {

using base::Concat;
using nlohmann::json;

RowReader::RowReader(const json& value, const std::string& where, std::string pointer)
    : object_(value), where_(where), pointer_(std::move(pointer)) {
  if (!value.is_object()) {
    throw base::ConfigError(where, pointer_, spec::DescribeJson(value), "an object");
  }
}

void RowReader::Fail(const std::string& key, const std::string& found,
                     const std::string& expected) const {
  throw base::ConfigError(where_, spec::JoinPointer(pointer_, key), found, expected);
}

const json* RowReader::Find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string RowReader::Text(const std::string& key) const {
  const json* value = Find(key);
  if (value == nullptr) return "";
  if (!value->is_string()) Fail(key, spec::DescribeJson(*value), "a text");
  return value->get<std::string>();
}

std::optional<bool> RowReader::OptionalFlag(const std::string& key) const {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) Fail(key, spec::DescribeJson(*value), "true or false");
  return value->get<bool>();
}

std::optional<int64_t> RowReader::Integer(const std::string& key, int64_t minimum) const {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  constexpr int64_t kMaximum = std::numeric_limits<int32_t>::max();  // sizes are multiplied
  const auto is_in_range = [&](double number) { return number >= minimum && number <= kMaximum; };
  if (!value->is_number() || !is_in_range(value->get<double>()) ||
      std::floor(value->get<double>()) != value->get<double>()) {
    Fail(key, spec::DescribeJson(*value),
         Concat("a whole number between ", minimum, " and ", kMaximum));
  }
  return static_cast<int64_t>(value->get<double>());
}

std::optional<int64_t> RowReader::Size(const std::string& key) const { return Integer(key, 1); }

std::optional<int64_t> RowReader::Count(const std::string& key) const { return Integer(key, 0); }

std::optional<double> RowReader::PositiveNumber(const std::string& key) const {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() > 0)) {
    Fail(key, spec::DescribeJson(*value), "a number above 0");
  }
  return value->get<double>();
}

std::vector<std::string> RowReader::Texts(const std::string& key) const {
  const json* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) Fail(key, spec::DescribeJson(*value), "an array of texts");
  std::vector<std::string> texts;
  for (const json& text : *value) {
    if (!text.is_string()) Fail(key, spec::DescribeJson(text), "texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::string RowReader::RequiredText(const std::string& key) const {
  if (Find(key) == nullptr) Fail(key, "no such key", "a text");
  return Text(key);
}

int64_t RowReader::RequiredSize(const std::string& key) const {
  const std::optional<int64_t> size = Size(key);
  if (!size) Fail(key, "no such key", "a whole number above 0");
  return *size;
}

RowReader RowReader::Section(const std::string& key) const {
  const json* value = Find(key);
  if (value == nullptr) Fail(key, "no such key", "an object");
  return RowReader(*value, where_, spec::JoinPointer(pointer_, key));
}

std::optional<RowReader> RowReader::OptionalSection(const std::string& key) const {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  return RowReader(*value, where_, spec::JoinPointer(pointer_, key));
}

}  // namespace tessera::planner
