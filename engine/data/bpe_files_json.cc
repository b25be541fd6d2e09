#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "cost_model/base/error.h"
#include "cost_model/spec/strict_json.h"
#include "engine/data/bpe_description.h"
#include "engine/data/byte_alphabet.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;
using JsonValue = nlohmann::json;
using spec::DescribeJson;
using spec::JoinPointer;

// A value of the document with its place, for messages.
struct Node {
  const JsonValue& value;
  const std::string& path;
  std::string pointer;

  [[noreturn]] void Fail(const std::string& expected) const {
    throw ConfigError(path, pointer, DescribeJson(value), expected);
  }
  // Null where the key is absent or null.
  std::optional<Node> Find(const std::string& key) const {
    if (!value.is_object()) Fail("an object");
    const auto found = value.find(key);
    if (found == value.end() || found->is_null()) return std::nullopt;
    return Node{.value = *found, .path = path, .pointer = JoinPointer(pointer, key)};
  }
  Node Get(const std::string& key) const {
    std::optional<Node> node = Find(key);
    if (!node) throw ConfigError(path, pointer, "no key \"" + key + '"', "a value under it");
    return *node;
  }
  std::vector<Node> Elements() const {
    if (!value.is_array()) Fail("an array");
    std::vector<Node> nodes;
    for (size_t i = 0; i < value.size(); ++i) {
      nodes.push_back(
          {.value = value[i], .path = path, .pointer = JoinPointer(pointer, std::to_string(i))});
    }
    return nodes;
  }
  std::string Text() const {
    if (!value.is_string()) Fail("text");
    return value.get<std::string>();
  }
  int32_t Id() const {
    if (!value.is_number_unsigned() ||
        value.get<uint64_t>() > uint64_t{std::numeric_limits<int32_t>::max()}) {
      Fail("a token's id, a whole number from 0");
    }
    return value.get<int32_t>();
  }
  // What the engine does only in one way. An absent key is what it is by default.
  void Require(const std::string& key, bool wanted, bool by_default) const {
    const std::optional<Node> node = Find(key);
    const bool is = node ? node->value == JsonValue(true) : by_default;
    if (is == wanted) return;
    const std::string expected = wanted ? "true" : "false";
    if (!node) throw ConfigError(path, pointer, "no key \"" + key + '"', expected);
    node->Fail(expected);
  }
};

std::vector<BpeToken> ReadVocabulary(const Node& node) {
  if (!node.value.is_object()) node.Fail("an object of tokens and their ids");
  std::vector<BpeToken> tokens;
  for (const auto& [token, id] : node.value.items()) {
    const Node entry{.value = id, .path = node.path, .pointer = JoinPointer(node.pointer, token)};
    // A special token may be written as it reads.
    tokens.push_back({.bytes = BytesOfToken(token).value_or(token), .id = entry.Id()});
  }
  return tokens;
}

// "left right" in the byte alphabet.
BpeMerge ReadMerge(std::string_view left, std::string_view right, const std::string& path,
                   const std::string& where) {
  const auto left_bytes = BytesOfToken(left);
  const auto right_bytes = BytesOfToken(right);
  if (!left_bytes || !right_bytes || left.empty() || right.empty()) {
    throw ConfigError(path, where, Concat('"', left, ' ', right, '"'),
                      "two tokens in the byte alphabet of GPT-2");
  }
  return {.left = *left_bytes, .right = *right_bytes};
}

BpeMerge ReadMergeLine(std::string_view line, const std::string& path, const std::string& where) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    throw ConfigError(path, where, Concat('"', line, '"'), "two tokens with a space between them");
  }
  return ReadMerge(line.substr(0, space), line.substr(space + 1), path, where);
}

std::vector<BpeMerge> ReadMergesText(const std::string& path) {
  const std::string text = spec::ReadTextFile(path);
  std::vector<BpeMerge> merges;
  std::string_view rest = text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    merges.push_back(ReadMergeLine(line, path, Concat("line ", number)));
  }
  return merges;
}

// Pairs as text, or as arrays in newer files.
std::vector<BpeMerge> ReadMerges(const Node& node) {
  std::vector<BpeMerge> merges;
  for (const Node& merge : node.Elements()) {
    if (!merge.value.is_array()) {
      merges.push_back(ReadMergeLine(merge.Text(), merge.path, merge.pointer));
      continue;
    }
    const std::vector<Node> pair = merge.Elements();
    if (pair.size() != 2) merge.Fail("two tokens");
    merges.push_back(ReadMerge(pair[0].Text(), pair[1].Text(), merge.path, merge.pointer));
  }
  return merges;
}

void ReadModel(const Node& model, BpeDescription& description) {
  const Node type = model.Get("type");
  if (type.Text() != "BPE") type.Fail("BPE (for others: sentencepiece:FILE.model)");
  model.Require("byte_fallback", false, false);
  for (const char* const key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::optional<Node> node = model.Find(key);
    if (node && node->value != JsonValue("")) node->Fail("null");
  }
  const std::optional<Node> ignores = model.Find("ignore_merges");
  description.keeps_known_pieces = ignores && ignores->value == JsonValue(true);
  description.vocabulary = ReadVocabulary(model.Get("vocab"));
  description.merges = ReadMerges(model.Get("merges"));
}

std::string ReadSplit(const Node& split) {
  const Node behavior = split.Get("behavior");
  if (behavior.Text() != "Isolated") behavior.Fail("Isolated");
  split.Require("invert", false, false);
  return split.Get("pattern").Get("Regex").Text();
}

// Leaves the pattern of what comes before in place, where this one has none of its own.
void ReadByteLevel(const Node& byte_level, std::string& pattern) {
  byte_level.Require("add_prefix_space", false, true);
  const std::optional<Node> uses_pattern = byte_level.Find("use_regex");
  const bool has_pattern = !uses_pattern || uses_pattern->value == JsonValue(true);
  if (!has_pattern) return;
  if (!pattern.empty()) byte_level.Fail("\"use_regex\": false behind a Split");
  pattern = kGpt2Pattern;
}

void ReadPreTokenizer(const Node& node, BpeDescription& description) {
  const Node type = node.Get("type");
  std::vector<Node> steps = {node};
  if (type.Text() == "Sequence") steps = node.Get("pretokenizers").Elements();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Node step_type = steps[i].Get("type");
    const bool is_last = i + 1 == steps.size();
    if (step_type.Text() == "ByteLevel" && is_last) {
      ReadByteLevel(steps[i], description.pattern);
    } else if (step_type.Text() == "Split" && !is_last && i == 0) {
      description.pattern = ReadSplit(steps[i]);
    } else {
      step_type.Fail("ByteLevel, or one Split and ByteLevel");
    }
  }
  if (steps.empty()) node.Fail("ByteLevel, or one Split and ByteLevel");
}

void ReadAddedTokens(const Node& tokens, BpeDescription& description) {
  for (const Node& token : tokens.Elements()) {
    for (const char* const key : {"single_word", "lstrip", "rstrip"}) {
      token.Require(key, false, false);
    }
    description.specials.push_back(
        {.bytes = token.Get("content").Text(), .id = token.Get("id").Id()});
  }
}

}  // namespace

BpeDescription ReadGpt2Folder(const std::string& folder) {
  const std::string vocabulary_path = folder + "/vocab.json";
  const JsonValue vocabulary = spec::ReadJsonFile(vocabulary_path);
  BpeDescription description{.path = folder, .pattern = std::string(kGpt2Pattern)};
  description.vocabulary =
      ReadVocabulary({.value = vocabulary, .path = vocabulary_path, .pointer = ""});
  description.merges = ReadMergesText(folder + "/merges.txt");
  std::set<std::string> made;
  for (const BpeMerge& merge : description.merges) made.insert(merge.left + merge.right);
  std::copy_if(description.vocabulary.begin(), description.vocabulary.end(),
               std::back_inserter(description.specials), [&](const BpeToken& token) {
                 return token.bytes.size() > 1 && !made.contains(token.bytes);
               });
  return description;
}

BpeDescription ReadTokenizerJson(const std::string& path) {
  const JsonValue document = spec::ReadJsonFile(path);
  const Node root{.value = document, .path = path, .pointer = ""};
  BpeDescription description{.path = path};
  if (const auto normalizer = root.Find("normalizer")) normalizer->Fail("null");
  ReadModel(root.Get("model"), description);
  ReadPreTokenizer(root.Get("pre_tokenizer"), description);
  if (const auto added = root.Find("added_tokens")) ReadAddedTokens(*added, description);
  return description;
}

}  // namespace tessera::engine
