#include "engine/data/json_lines_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

using JsonValue = nlohmann::json;

// The parser's message from its own prefix on: "...: syntax error while parsing value - ...".
std::string Reason(const JsonValue::exception& error) {
  const std::string_view message = error.what();
  const size_t colon = message.find(": ");
  return std::string(colon == std::string_view::npos ? message : message.substr(colon + 2));
}

}  // namespace

JsonLine ReadJsonLine(std::string_view line, const std::string& key) {
  JsonValue record;
  try {
    record = JsonValue::parse(line);
  } catch (const JsonValue::exception& error) {
    return {.text = {},
            .found = base::Concat("broken JSON (", Reason(error), ")"),
            .expected = "a JSON object"};
  }
  const std::string expected = base::Concat("an object with a string under \"", key, "\"");
  if (!record.is_object()) {
    return {.text = {}, .found = base::Concat("JSON ", record.type_name()), .expected = expected};
  }
  const auto field = record.find(key);
  if (field == record.end()) {
    return {.text = {}, .found = "an object without that key", .expected = expected};
  }
  if (!field->is_string()) {
    return {.text = {},
            .found = base::Concat(field->type_name(), " under \"", key, "\""),
            .expected = expected};
  }
  return {.text = std::move(field->get_ref<std::string&>()), .found = "", .expected = ""};
}

}  // namespace tessera::engine
