// Megatron-LM's arguments as they stand on a command line: "--num-layers 96 --swiglu ...".
#include <cctype>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/import_json.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using base::ConfigError;
using nlohmann::json;

struct Word {
  std::string text;
  int line = 1;
  bool quoted = false;
};

// Words as a shell splits them, of the plain kind: quotes, comments and line continuations, no
// variables.
class Splitter {
 public:
  Splitter(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  std::vector<Word> Split() && {
    for (; place_ < text_.size(); ++place_) {
      const char c = text_[place_];
      if (c == '\'' || c == '"') {
        ReadQuoted(c);
      } else if (c == '\\' && place_ + 1 < text_.size() && text_[place_ + 1] == '\n') {
        continue;  // the newline itself ends the word
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        EndWord();
        if (c == '\n') ++line_;
      } else if (c == '#' && !in_word_) {
        place_ = std::min(text_.find('\n', place_), text_.size()) - 1;
      } else {
        Append(c);
      }
    }
    EndWord();
    return std::move(words_);
  }

 private:
  void ReadQuoted(char quote) {
    const std::size_t end = text_.find(quote, place_ + 1);
    if (end == std::string::npos) {
      throw ConfigError(Concat(file_, ": line ", line_, ": a quotation without its end"));
    }
    Start();
    words_.back().quoted = true;
    for (++place_; place_ < end; ++place_) {
      words_.back().text += text_[place_];
      if (text_[place_] == '\n') ++line_;
    }
  }
  void Start() {
    if (!in_word_) words_.push_back({.text = "", .line = line_});
    in_word_ = true;
  }
  void Append(char c) {
    Start();
    words_.back().text += c;
  }
  void EndWord() { in_word_ = false; }

  const std::string& text_;
  const std::string& file_;
  std::size_t place_ = 0;
  int line_ = 1;
  bool in_word_ = false;
  std::vector<Word> words_;
};

bool IsName(const Word& word) { return !word.quoted && word.text.rfind("--", 0) == 0; }

json ValueOf(const Word& word) { return word.quoted ? json(word.text) : TypedScalar(word.text); }

}  // namespace

bool LooksLikeArguments(const std::string& text) {
  std::size_t place = text.find_first_not_of(" \t\r\n");
  while (place != std::string::npos && text[place] == '#') {
    place = text.find_first_not_of(" \t\r\n", std::min(text.find('\n', place), text.size()));
  }
  return place != std::string::npos && text.compare(place, 2, "--") == 0 &&
         place + 2 < text.size() && std::isalpha(static_cast<unsigned char>(text[place + 2])) != 0;
}

json ParseArguments(const std::string& text, const std::string& file) {
  json arguments = json::object();
  const std::vector<Word> words = Splitter(text, file).Split();
  for (std::size_t i = 0; i < words.size();) {
    const Word& name = words[i];
    if (!IsName(name)) {
      throw ConfigError(Concat(file, ": line ", name.line), "", '"' + name.text + '"',
                        "an argument that starts with --");
    }
    std::string key = name.text;
    std::vector<json> values;
    if (const std::size_t equals = key.find('='); equals != std::string::npos) {
      values.push_back(TypedScalar(key.substr(equals + 1)));
      key.resize(equals);
    }
    for (++i; i < words.size() && !IsName(words[i]); ++i) values.push_back(ValueOf(words[i]));
    if (arguments.contains(key)) {
      throw ConfigError(Concat(file, ": line ", name.line), "", key + " a second time", "it once");
    }
    arguments[key] = values.empty() ? json(true) : values.size() == 1 ? values[0] : json(values);
  }
  return arguments;
}

}  // namespace tessera::spec
