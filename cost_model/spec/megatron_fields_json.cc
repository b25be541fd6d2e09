#include "cost_model/spec/megatron_fields_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "cost_model/base/check.h"

namespace tessera::spec {
namespace {

// The shortest text that reads back as this number; whole ones without point or exponent, for
// arguments that Megatron-LM parses as integers.
std::string NumberText(double value) {
  constexpr double kExactIntegers = 1e15;
  if (value == std::floor(value) && std::abs(value) < kExactIntegers) {
    return std::to_string(static_cast<int64_t>(value));
  }
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  TESSERA_CHECK(error == std::errc(), "a number longer than its buffer");
  return std::string(text.data(), end);
}

}  // namespace

void MegatronFields::Number(const char* key, double& field, const Names& names,
                            std::optional<double> standard, NumberRange range, Show show) {
  if (is_reading()) {
    Set(key, field, reader_->Number(names, range), standard);
  } else if (show == Show::kAlways || field != standard) {
    Write(names.front(), NumberText(field));
  }
}

void MegatronFields::Flag(const char* key, bool& field, const Names& names) {
  if (is_reading()) {
    Set(key, field, reader_->Flag(names), std::optional(false));
  } else if (field) {
    Write(names.front());
  }
}

void MegatronFields::Write(const std::string& name, std::string value) {
  command_->arguments.push_back({section_, name, std::move(value)});
}

void MegatronFields::Warn(std::string sentence) {
  command_->warnings.push_back(std::move(sentence));
}

void MegatronFields::Refuse(const char* constraint, std::string sentence) {
  command_->violations.push_back({.constraint = constraint, .message = std::move(sentence)});
}

std::string MegatronLine(const MegatronArgument& argument) {
  std::string name = argument.name;
  std::replace(name.begin(), name.end(), '_', '-');
  if (argument.value.empty()) return "--" + name;
  // Several numbers are several words.
  const bool is_list = argument.name == "rampup_batch_size";
  const bool is_plain = is_list || argument.value.find_first_of("*|()[]$ ") == std::string::npos;
  return base::Concat("--", name, " ", is_plain ? "" : "\"", argument.value, is_plain ? "" : "\"");
}

}  // namespace tessera::spec
