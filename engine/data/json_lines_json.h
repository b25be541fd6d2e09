// One record of a JSON lines file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::engine {

// What ReadJsonLine found: the text, or what is wrong with the record.
struct JsonLine {
  std::optional<std::string> text;
  std::string found;
  std::string expected;
};

// The string under `key` of the JSON object in `line`.
JsonLine ReadJsonLine(std::string_view line, const std::string& key);

}  // namespace tessera::engine
