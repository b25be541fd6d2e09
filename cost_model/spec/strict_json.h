// JSON text to a document, with the errors that a person who wrote the file needs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::spec {

// Throws base::ConfigError: bad syntax with its line and column, a repeated key with its pointer,
// nesting deeper than any file of ours.
nlohmann::json ParseJson(const std::string& text, const std::string& file);

// The text of a file. Throws base::ConfigError when it cannot be read.
std::string ReadTextFile(const std::string& path);
nlohmann::json ReadJsonFile(const std::string& path);

// What an error message says it found: the value where short, otherwise its type. Of a document of
// any depth.
std::string DescribeJson(const nlohmann::json& value);

// `parent` + "/" + key, with "~" and "/" of the key escaped (RFC 6901); a control character becomes
// "?", so that a message stays one line.
std::string JoinPointer(const std::string& parent, const std::string& key);

// The candidate that differs least from `name`; "" when none is close enough to be a slip of it.
std::string NearestName(const std::string& name, const std::vector<std::string>& candidates);

// "a", "b" or "c".
std::string QuotedList(const std::vector<std::string>& names);

}  // namespace tessera::spec
