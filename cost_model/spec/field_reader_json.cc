#include "cost_model/spec/field_reader_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using base::ConfigError;
using nlohmann::json;

template <typename T>
std::string Expected(const char* what, const Range<T>& range) {
  const bool has_minimum = range.minimum > std::numeric_limits<T>::lowest();
  const bool has_maximum = range.maximum < std::numeric_limits<T>::max();
  std::string text = what;
  if (has_minimum) {
    text += Concat(range.above_minimum ? " above " : " of at least ", range.minimum);
  }
  if (has_maximum) {
    text += Concat(has_minimum ? " and" : "", range.below_maximum ? " below " : " at most ",
                   range.maximum);
  }
  return text;
}

template <typename T>
bool Contains(const Range<T>& range, T value) {
  return (range.above_minimum ? value > range.minimum : value >= range.minimum) &&
         (range.below_maximum ? value < range.maximum : value <= range.maximum);
}

// JSON knows one kind of number: 8e10 is an integer too. Beyond 2^53 a double may not be exact.
std::optional<int64_t> AsInteger(const json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::floor(number) != number || std::abs(number) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

FieldReader::FieldReader(const json& object, const std::string& file, const std::string& pointer,
                         std::map<std::string, NumberSource>* sources, std::string source_root)
    : object_(object),
      file_(file),
      pointer_(pointer),
      sources_(sources),
      source_root_(std::move(source_root)) {
  if (!object.is_object()) {
    throw ConfigError(file, pointer, DescribeJson(object), "an object");
  }
}

void FieldReader::Read(const json& object, const std::string& file, const Visit& visit) {
  FieldReader reader(object, file, "");
  visit(reader);
  reader.Finish();
}

void FieldReader::Fail(const std::string& key, const std::string& found,
                       const std::string& expected) const {
  throw ConfigError(file_, JoinPointer(pointer_, key), found, expected);
}

const json* FieldReader::Take(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

const json* FieldReader::Find(const std::string& key, Presence presence,
                              const std::string& expected) {
  const json* value = Take(key);
  if (value == nullptr && presence == Presence::kRequired && !missing_) {
    missing_.emplace(key, expected);
  }
  return value;
}

const json* FieldReader::FindSourced(const std::string& key, Presence presence,
                                     const std::string& expected) {
  const json* value = Find(key, presence, expected);
  if (value == nullptr || sources_ == nullptr || !value->is_object()) return value;
  const std::string pointer = JoinPointer(pointer_, key);
  const auto inner = value->find("value");
  if (inner == value->end()) throw ConfigError(file_, pointer + "/value", "nothing", expected);
  ReadSource(*value, pointer);
  return &*inner;
}

void FieldReader::ReadSource(const json& wrapper, const std::string& pointer) {
  FieldReader reader(wrapper, file_, pointer);
  NumberSource source;
  const std::vector<std::string> tags = {"spec", "measured", "fitted", "assumed"};
  reader.Take("value");
  source.tag = tags[reader.Name("tag", tags, 0, Presence::kRequired)];
  reader.Text("source", source.text);
  reader.Finish();
  (*sources_)[pointer.substr(source_root_.size())] = source;
}

void FieldReader::Text(const std::string& key, std::string& value, Presence presence) {
  const json* found = Find(key, presence, "a string");
  if (found == nullptr) return;
  if (!found->is_string()) Fail(key, DescribeJson(*found), "a string");
  value = found->get<std::string>();
}

void FieldReader::Flag(const std::string& key, bool& value, Presence presence) {
  const json* found = Find(key, presence, "true or false");
  if (found == nullptr) return;
  if (!found->is_boolean()) Fail(key, DescribeJson(*found), "true or false");
  value = found->get<bool>();
}

void FieldReader::Integer(const std::string& key, int64_t& value, IntegerRange range,
                          Presence presence) {
  const std::string expected = Expected("an integer", range);
  const json* found = FindSourced(key, presence, expected);
  if (found == nullptr) return;
  const std::optional<int64_t> number = AsInteger(*found);
  if (!number || !Contains(range, *number)) Fail(key, DescribeJson(*found), expected);
  value = *number;
}

void FieldReader::Unsigned(const std::string& key, uint64_t& value, Presence presence) {
  const std::string expected = "an integer of at least 0";
  const json* found = Find(key, presence, expected);
  if (found == nullptr) return;
  if (!found->is_number_unsigned()) Fail(key, DescribeJson(*found), expected);
  value = found->get<uint64_t>();
}

void FieldReader::Number(const std::string& key, double& value, NumberRange range,
                         Presence presence) {
  const std::string expected = Expected("a number", range);
  const json* found = FindSourced(key, presence, expected);
  if (found == nullptr) return;
  if (!found->is_number() || !Contains(range, found->get<double>())) {
    Fail(key, DescribeJson(*found), expected);
  }
  value = found->get<double>();
}

void FieldReader::Integers(const std::string& key, std::vector<int>& values, Presence presence) {
  const json* found = Find(key, presence, "an array of integers");
  if (found == nullptr) return;
  if (!found->is_array()) Fail(key, DescribeJson(*found), "an array of integers");
  values.clear();
  for (std::size_t i = 0; i < found->size(); ++i) {
    const std::optional<int64_t> number = AsInteger((*found)[i]);
    if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) {
      throw ConfigError(file_, Concat(JoinPointer(pointer_, key), "/", i),
                        DescribeJson((*found)[i]), "an integer of at least 0");
    }
    values.push_back(static_cast<int>(*number));
  }
}

void FieldReader::Texts(const std::string& key, std::vector<std::string>& values,
                        Presence presence) {
  const json* found = Find(key, presence, "an array of strings");
  if (found == nullptr) return;
  if (!found->is_array()) Fail(key, DescribeJson(*found), "an array of strings");
  values.clear();
  for (std::size_t i = 0; i < found->size(); ++i) {
    if (!(*found)[i].is_string()) {
      throw ConfigError(file_, Concat(JoinPointer(pointer_, key), "/", i),
                        DescribeJson((*found)[i]), "a string");
    }
    values.push_back((*found)[i].get<std::string>());
  }
}

void FieldReader::Table(const std::string& key, EfficiencyTable& table, Presence presence) {
  const std::string expected = "an array of [size, efficiency] pairs";
  const json* found = FindSourced(key, presence, expected);
  if (found == nullptr) return;
  if (!found->is_array()) Fail(key, DescribeJson(*found), expected);
  table.clear();
  for (std::size_t i = 0; i < found->size(); ++i) {
    const json& pair = (*found)[i];
    const std::string pointer = Concat(JoinPointer(pointer_, key), "/", i);
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number()) {
      throw ConfigError(file_, pointer, pair.is_array() ? pair.dump() : DescribeJson(pair),
                        "a pair [size, efficiency]");
    }
    const EfficiencyPoint point{.size = pair[0].get<double>(), .efficiency = pair[1].get<double>()};
    if (!Contains(kFraction, point.efficiency)) {
      throw ConfigError(file_, pointer + "/1", DescribeJson(pair[1]),
                        Expected("an efficiency", kFraction));
    }
    const double least = table.empty() ? 0 : table.back().size;
    if (!(point.size > least)) {
      throw ConfigError(file_, pointer + "/0", DescribeJson(pair[0]),
                        Concat("a size above ", least));
    }
    table.push_back(point);
  }
}

std::size_t FieldReader::Name(const std::string& key, const std::vector<std::string>& names,
                              std::size_t index, Presence presence) {
  const json* found = Find(key, presence, QuotedList(names));
  if (found == nullptr) return index;
  const auto name = found->is_string()
                        ? std::find(names.begin(), names.end(), found->get<std::string>())
                        : names.end();
  if (name == names.end()) Fail(key, DescribeJson(*found), QuotedList(names));
  return static_cast<std::size_t>(name - names.begin());
}

void FieldReader::Object(const std::string& key, const Visit& visit) {
  const json* found = Find(key, Presence::kRequired, "an object");
  if (found == nullptr) return;
  FieldReader reader(*found, file_, JoinPointer(pointer_, key), sources_, source_root_);
  visit(reader);
  reader.Finish();
}

void FieldReader::Objects(const std::string& key, std::size_t /*size*/,
                          const std::function<void(std::size_t size)>& resize,
                          const std::function<void(FieldVisitor&, std::size_t index)>& visit) {
  const json* found = Find(key, Presence::kRequired, "an array of objects");
  if (found == nullptr) return;
  if (!found->is_array()) Fail(key, DescribeJson(*found), "an array of objects");
  resize(found->size());
  for (std::size_t i = 0; i < found->size(); ++i) {
    FieldReader reader((*found)[i], file_, Concat(JoinPointer(pointer_, key), "/", i), sources_,
                       source_root_);
    visit(reader, i);
    reader.Finish();
  }
}

bool FieldReader::Present(const std::string& key, bool /*is_set*/) { return Take(key) != nullptr; }

void FieldReader::Remark(const std::string& key) {
  std::string dropped;
  Text(key, dropped, Presence::kOptional);
}

void FieldReader::Finish() const {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string nearest = NearestName(key, known_);
    Fail(key, "an unknown key",
         nearest.empty() ? "one of " + QuotedList(known_) : Concat('"', nearest, '"'));
  }
  if (missing_) Fail(missing_->first, "nothing", missing_->second);
}

}  // namespace tessera::spec
