#include "cost_model/spec/strict_json.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cost_model/base/error.h"

namespace tessera::spec {
namespace {

using base::Concat;
using base::ConfigError;
using nlohmann::json;

// Far above any file of ours; what walks through a document calls itself once a level.
constexpr std::size_t kMaxDepth = 100;

// Follows the parser through the document and refuses nesting without end, and the second of two
// equal keys, which the document itself would swallow.
class DocumentGuard {
 public:
  explicit DocumentGuard(const std::string& file) : file_(file) {}

  bool operator()(int /*depth*/, json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        CountElement();
        levels_.emplace_back().is_array = event == Event::array_start;
        if (levels_.size() > kMaxDepth) {
          throw ConfigError(file_, "", Concat("more than ", kMaxDepth, " levels of nesting"),
                            "a document of a few levels");
        }
        break;
      case Event::object_end:
      case Event::array_end:
        levels_.pop_back();
        break;
      case Event::key:
        levels_.back().key = parsed.get<std::string>();
        if (!levels_.back().keys.insert(levels_.back().key).second) {
          throw ConfigError(file_, Pointer(), "the key a second time", "it once");
        }
        break;
      case Event::value:
        CountElement();
        break;
    }
    return true;
  }

 private:
  struct Level {
    bool is_array = false;
    int64_t index = -1;  // of the array's current element
    std::string key;     // the object's current key
    std::set<std::string> keys;
  };

  void CountElement() {
    if (!levels_.empty() && levels_.back().is_array) ++levels_.back().index;
  }

  std::string Pointer() const {
    std::string pointer;
    for (const Level& level : levels_) {
      pointer = JoinPointer(pointer, level.is_array ? std::to_string(level.index) : level.key);
    }
    return pointer;
  }

  const std::string& file_;
  std::vector<Level> levels_;
};

// The parser's message less its error code and position.
std::string Reason(const std::string& message) {
  const std::size_t position = message.find("column ");
  const std::size_t colon = message.find(": ", position == std::string::npos ? 0 : position);
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

[[noreturn]] void FailSyntax(const std::string& text, const std::string& file, std::size_t byte,
                             const std::string& message) {
  const std::size_t end = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const auto begin = text.begin();
  const auto line = 1 + std::count(begin, begin + static_cast<std::ptrdiff_t>(end), '\n');
  const std::size_t line_start = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t column = line_start == std::string::npos ? end + 1 : end - line_start;
  throw ConfigError(Concat(file, ": line ", line, ", column ", column, ": ", Reason(message)));
}

// Levenshtein's distance: insertions, deletions and replacements.
std::size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

json ParseJson(const std::string& text, const std::string& file) {
  DocumentGuard guard(file);
  try {
    return json::parse(text, [&guard](int depth, json::parse_event_t event, json& parsed) {
      return guard(depth, event, parsed);
    });
  } catch (const json::parse_error& error) {
    FailSyntax(text, file, error.byte, error.what());
  } catch (const json::exception& error) {  // a number beyond double
    const std::string message = error.what();
    const std::size_t bracket = message.find("] ");
    throw ConfigError(
        Concat(file, ": ", bracket == std::string::npos ? message : message.substr(bracket + 2)));
  }
}

std::string ReadTextFile(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw ConfigError(path, "", "a folder", "a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path, "", std::strerror(errno), "a readable file");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

json ReadJsonFile(const std::string& path) { return ParseJson(ReadTextFile(path), path); }

std::string DescribeJson(const json& value) {
  constexpr std::size_t kMaxShown = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...";
}

std::string JoinPointer(const std::string& parent, const std::string& key) {
  std::string escaped;
  for (const char c : key) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else if (static_cast<unsigned char>(c) < ' ') {
      escaped += '?';
    } else {
      escaped += c;
    }
  }
  return parent + "/" + escaped;
}

std::string NearestName(const std::string& name, const std::vector<std::string>& candidates) {
  constexpr std::size_t kMaxCompared = 100;  // the distance costs the product of the lengths
  if (name.size() > kMaxCompared) return "";
  std::string nearest;
  std::size_t least = name.size() / 3 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = EditDistance(name, candidate);
    if (distance < least || (distance == least && nearest.empty())) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string QuotedList(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 == names.size() ? " or " : ", ";
    list += '"' + names[i] + '"';
  }
  return list;
}

}  // namespace tessera::spec
