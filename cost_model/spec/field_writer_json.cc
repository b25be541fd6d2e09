#include "cost_model/spec/field_writer_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::spec {

using nlohmann::ordered_json;

FieldWriter::FieldWriter(ordered_json& object, std::string pointer,
                         const std::map<std::string, NumberSource>* sources)
    : object_(object), pointer_(std::move(pointer)), sources_(sources) {
  object_ = ordered_json::object();
}

void FieldWriter::Put(const std::string& key, ordered_json value) {
  if (sources_ != nullptr) {
    const auto source = sources_->find(JoinPointer(pointer_, key));
    if (source != sources_->end()) {
      value = {{"value", std::move(value)},
               {"tag", source->second.tag},
               {"source", source->second.text}};
    }
  }
  object_[key] = std::move(value);
}

void FieldWriter::Text(const std::string& key, std::string& value, Presence /*presence*/) {
  object_[key] = value;
}

void FieldWriter::Flag(const std::string& key, bool& value, Presence /*presence*/) {
  object_[key] = value;
}

void FieldWriter::Integer(const std::string& key, int64_t& value, IntegerRange /*range*/,
                          Presence /*presence*/) {
  Put(key, value);
}

void FieldWriter::Unsigned(const std::string& key, uint64_t& value, Presence /*presence*/) {
  object_[key] = value;
}

void FieldWriter::Number(const std::string& key, double& value, NumberRange /*range*/,
                         Presence /*presence*/) {
  TESSERA_CHECK(std::isfinite(value), key, " is ", value, ", which JSON cannot say");
  Put(key, value);
}

void FieldWriter::Integers(const std::string& key, std::vector<int>& values,
                           Presence /*presence*/) {
  object_[key] = values;
}

void FieldWriter::Texts(const std::string& key, std::vector<std::string>& values,
                        Presence /*presence*/) {
  object_[key] = values;
}

void FieldWriter::Table(const std::string& key, EfficiencyTable& table, Presence /*presence*/) {
  ordered_json pairs = ordered_json::array();
  for (const EfficiencyPoint& point : table) {
    pairs.push_back(ordered_json::array({point.size, point.efficiency}));
  }
  Put(key, std::move(pairs));
}

std::size_t FieldWriter::Name(const std::string& key, const std::vector<std::string>& names,
                              std::size_t index, Presence /*presence*/) {
  TESSERA_CHECK(index < names.size(), key, " has no name for value ", index);
  object_[key] = names[index];
  return index;
}

void FieldWriter::Object(const std::string& key, const Visit& visit) {
  FieldWriter writer(object_[key], JoinPointer(pointer_, key), sources_);
  visit(writer);
}

void FieldWriter::Objects(const std::string& key, std::size_t size,
                          const std::function<void(std::size_t size)>& /*resize*/,
                          const std::function<void(FieldVisitor&, std::size_t index)>& visit) {
  object_[key] = ordered_json::array();
  for (std::size_t i = 0; i < size; ++i) {
    ordered_json element;
    FieldWriter writer(element, JoinPointer(JoinPointer(pointer_, key), std::to_string(i)),
                       sources_);
    visit(writer, i);
    object_[key].push_back(std::move(element));
  }
}

bool FieldWriter::Present(const std::string& /*key*/, bool is_set) { return is_set; }

void FieldWriter::Remark(const std::string& /*key*/) {}

}  // namespace tessera::spec
