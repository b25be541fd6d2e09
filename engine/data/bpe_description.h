// What the files of a byte-level BPE tokenizer say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::engine {

// How GPT-2 cuts text into pieces, each of which is merged by itself.
// Source: github.com/openai/gpt-2, src/encoder.py.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A token and the bytes that it stands for.
struct BpeToken {
  std::string bytes;
  int32_t id = 0;
};

struct BpeMerge {
  std::string left;
  std::string right;
};

struct BpeDescription {
  std::string path;  // of the file or folder, for messages
  std::vector<BpeToken> vocabulary;
  std::vector<BpeMerge> merges;     // earlier ones go first
  std::vector<BpeToken> specials;   // tokens that no merge makes; may be in the vocabulary too
  std::string pattern;              // matches of it are pieces; empty: the text is one piece
  bool keeps_known_pieces = false;  // a piece that is a token is not merged from its bytes
};

// Reads vocab.json and merges.txt of a folder, GPT-2's own form: tokens are written in a
// byte alphabet of printable characters, a line of merges.txt is "left right". Special is what is
// no byte and no merge makes. Throws base::ConfigError naming file and key or line.
BpeDescription ReadGpt2Folder(const std::string& folder);

// Reads a tokenizer.json of Hugging Face's tokenizers library: a model of type BPE behind a
// pre-tokenizer ByteLevel, alone or with one Split by a regular expression before it. Throws
// base::ConfigError naming the key of anything else that would change the tokens.
BpeDescription ReadTokenizerJson(const std::string& path);

}  // namespace tessera::engine
