#include "cost_model/spec/megatron_arguments_json.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "cost_model/base/error.h"
#include "cost_model/spec/field_reader_json.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::spec {
namespace {

using base::ConfigError;
using nlohmann::json;

std::string Normalise(std::string name) {
  if (name.rfind("--", 0) == 0) name.erase(0, 2);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace

MegatronArguments::MegatronArguments(const json& document, std::string file)
    : file_(std::move(file)) {
  if (!document.is_object()) throw ConfigError(file_, "", DescribeJson(document), "an object");
  Gather(document, "");
}

void MegatronArguments::Gather(const json& section, const std::string& pointer) {
  for (const auto& [key, value] : section.items()) {
    if (value.is_object()) {
      Gather(value, JoinPointer(pointer, key));
      continue;
    }
    if (value.is_null()) continue;
    const Argument argument{.section = &section, .section_pointer = pointer, .key = key};
    const auto [earlier, inserted] = arguments_.try_emplace(Normalise(key), argument);
    if (!inserted) {
      throw ConfigError(file_, PointerOf(argument), "the argument a second time",
                        "it once (it stands at " + PointerOf(earlier->second) + " too)");
    }
  }
}

std::string MegatronArguments::PointerOf(const Argument& argument) const {
  return JoinPointer(argument.section_pointer, argument.key);
}

const MegatronArguments::Argument* MegatronArguments::Find(const std::vector<std::string>& names) {
  const Argument* found = nullptr;
  for (const std::string& name : names) {
    known_.insert(name);
    const auto argument = arguments_.find(name);
    if (argument == arguments_.end()) continue;
    if (found != nullptr) {
      throw ConfigError(file_, PointerOf(argument->second),
                        "the argument a second time under another name",
                        "it once (it stands at " + PointerOf(*found) + " too)");
    }
    found = &argument->second;
  }
  return found;
}

std::optional<int64_t> MegatronArguments::Integer(const std::vector<std::string>& names,
                                                  IntegerRange range) {
  const Argument* argument = Find(names);
  if (argument == nullptr) return std::nullopt;
  int64_t value = 0;
  FieldReader(*argument->section, file_, argument->section_pointer)
      .Integer(argument->key, value, range);
  return value;
}

int64_t MegatronArguments::RequiredInteger(const std::vector<std::string>& names) {
  const std::optional<int64_t> value = Integer(names);
  if (!value && missing_.empty()) missing_ = names.front();
  return value.value_or(1);
}

std::optional<double> MegatronArguments::Number(const std::vector<std::string>& names,
                                                NumberRange range) {
  const Argument* argument = Find(names);
  if (argument == nullptr) return std::nullopt;
  double value = 0;
  FieldReader(*argument->section, file_, argument->section_pointer)
      .Number(argument->key, value, range);
  return value;
}

std::optional<bool> MegatronArguments::Flag(const std::vector<std::string>& names) {
  const Argument* argument = Find(names);
  if (argument == nullptr) return std::nullopt;
  bool value = false;
  FieldReader(*argument->section, file_, argument->section_pointer).Flag(argument->key, value);
  return value;
}

bool MegatronArguments::FlagOr(const std::vector<std::string>& names, bool fallback) {
  return Flag(names).value_or(fallback);
}

std::optional<std::size_t> MegatronArguments::Choice(const std::vector<std::string>& names,
                                                     const std::vector<std::string>& choices) {
  const Argument* argument = Find(names);
  if (argument == nullptr) return std::nullopt;
  return FieldReader(*argument->section, file_, argument->section_pointer)
      .Name(argument->key, choices, 0, Presence::kRequired);
}

std::optional<std::string> MegatronArguments::Text(const std::vector<std::string>& names) {
  const Argument* argument = Find(names);
  if (argument == nullptr) return std::nullopt;
  const json& value = argument->section->at(argument->key);
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number() && !value.is_array()) Fail(names, DescribeJson(value), "text");
  return value.dump();
}

std::optional<std::vector<int64_t>> MegatronArguments::Integers(
    const std::vector<std::string>& names) {
  std::optional<std::string> text = Text(names);
  if (!text) return std::nullopt;
  const auto is_bracket = [](char c) { return std::strchr("()[] ", c) != nullptr; };
  text->erase(std::remove_if(text->begin(), text->end(), is_bracket), text->end());
  std::vector<int64_t> values;
  for (const char* begin = text->data(); begin != nullptr;) {
    const char* end = text->data() + text->size();
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || (stop != end && *stop != ',')) {
      Fail(names, '"' + *text + '"', "integers separated by commas");
    }
    values.push_back(value);
    begin = stop == end ? nullptr : stop + 1;
  }
  return values;
}

bool MegatronArguments::Given(const std::vector<std::string>& names) {
  const Argument* argument = Find(names);
  return argument != nullptr && argument->section->at(argument->key) != false;
}

void MegatronArguments::Only(const std::string& name, const json& only, const std::string& why) {
  const Argument* argument = Find({name});
  if (argument == nullptr) return;
  const json& value = argument->section->at(argument->key);
  if (value != only) Fail({name}, DescribeJson(value), DescribeJson(only) + " (" + why + ")");
}

void MegatronArguments::Skip(const std::vector<std::string>& names) {
  known_.insert(names.begin(), names.end());
}

void MegatronArguments::Fail(const std::vector<std::string>& names, const std::string& found,
                             const std::string& expected) const {
  for (const std::string& name : names) {
    const auto argument = arguments_.find(name);
    if (argument == arguments_.end()) continue;
    throw ConfigError(file_, PointerOf(argument->second), found, expected);
  }
  throw ConfigError(file_, "/" + names.front(), found, expected);
}

void MegatronArguments::Finish() const {
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& [name, argument] : arguments_) {
    if (known_.count(name) > 0) continue;
    const std::string nearest = NearestName(name, known);
    throw ConfigError(
        file_, PointerOf(argument), "an unknown key",
        nearest.empty() ? "the long name of a Megatron-LM argument" : '"' + nearest + '"');
  }
  if (!missing_.empty()) Fail({missing_}, "nothing", "an integer of at least 1");
}

}  // namespace tessera::spec
