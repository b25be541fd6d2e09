#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/import_json.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using base::ConfigError;
using nlohmann::json;

template <typename T>
bool ParseWhole(const std::string& text, T& value) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  return error == std::errc() && stop == end && begin != end;
}

class YamlToJson {
 public:
  explicit YamlToJson(const std::string& file) : file_(file) {}

  json Convert(const YAML::Node& node, const std::string& pointer, int depth) {
    // Aliases let a small file unfold into an endless one.
    constexpr int kMaxDepth = 16;
    constexpr int kMaxNodes = 10000;
    if (depth > kMaxDepth || ++num_nodes_ > kMaxNodes) {
      throw ConfigError(file_, pointer, "too deep or too large a document", "a list of arguments");
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        // "!" tags a quoted scalar: a string whatever it looks like.
        return node.Tag() == "!" ? json(node.Scalar()) : TypedScalar(node.Scalar());
      case YAML::NodeType::Sequence: {
        json array = json::array();
        for (const YAML::Node& element : node) {
          const std::string here = Concat(pointer, "/", array.size());
          array.push_back(Convert(element, here, depth + 1));
        }
        return array;
      }
      case YAML::NodeType::Map:
        return ConvertMap(node, pointer, depth);
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        break;
    }
    return nullptr;
  }

 private:
  json ConvertMap(const YAML::Node& node, const std::string& pointer, int depth) {
    json object = json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        throw ConfigError(file_, pointer, "a key that is no plain word", "the name of an argument");
      }
      const std::string key = entry.first.Scalar();
      const std::string here = JoinPointer(pointer, key);
      if (object.contains(key)) throw ConfigError(file_, here, "the key a second time", "it once");
      object[key] = Convert(entry.second, here, depth + 1);
    }
    return object;
  }

  const std::string& file_;
  int num_nodes_ = 0;
};

}  // namespace

json TypedScalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return nullptr;
  }
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  // Other words that a number's parser takes ("nan", "infinity") are words.
  if (text.find_first_of("0123456789") == std::string::npos) return text;
  int64_t integer = 0;
  if (ParseWhole(text, integer)) return integer;
  double number = 0;
  if (ParseWhole(text, number) && std::isfinite(number)) return number;
  return text;
}

json ParseYaml(const std::string& text, const std::string& file) {
  try {
    return YamlToJson(file).Convert(YAML::Load(text), "", 0);
  } catch (const YAML::Exception& error) {
    throw ConfigError(Concat(file, ": line ", error.mark.line + 1, ", column ",
                             error.mark.column + 1, ": ", error.msg));
  }
}

}  // namespace tessera::spec
