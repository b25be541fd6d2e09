// Tokenizers' files, and texts to tokenize.
#include <filesystem>
#include <memory>
#include <vector>

#include "engine/data/sentencepiece_tokenizer.h"
#include "engine/data/text_chunk.h"
#include "engine/data/tokenizer_choice.h"
#include "tests/engine/data_test_files.h"
#include "tests/engine/sentencepiece_model.h"
#include "tests/engine/tokenizer_test_data.h"
#include "tests/fuzz/fuzz_target.h"

namespace tessera::fuzz {
namespace {

using engine::test::ReadFile;
using engine::test::TestFolder;

// Letters, digits, spaces, a special token, an accent, a sign beyond 16 bits, and what is no UTF-8.
constexpr char kText[] =
    "The 12 quick foxes' tails,\n\n  <|endoftext|>don't \xC3\xA9\xF0\x9F\x8C\x8D\xFF\xC3 end";

// Opens a tokenizer and takes a text there and back.
void UseTokenizer(const engine::TokenizerOptions& options) {
  const auto tokenizer = engine::OpenTokenizer(options);
  std::vector<int32_t> tokens;
  tokenizer->NewEncoder()->Encode(kText, tokens);
  tokenizer->FindCut(kText, 1);
  PrintableTokens(*tokenizer, tokens);
}

// 256 tokens of a byte, two merged ones and a special one, without the rest of the golden file's.
std::string SmallTokenizerJson() {
  std::string vocabulary;
  int id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    // GPT-2's byte alphabet: printable bytes stand for themselves, the others follow from U+0100.
    const bool is_printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const int point = is_printable ? byte : 256 + id++;
    std::string token;
    if (point < 0x80) {
      token = static_cast<char>(point);
    } else {
      token = {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
    }
    if (token == "\"" || token == "\\") token = "\\" + token;
    vocabulary += "\"" + token + "\":" + std::to_string(byte) + ",";
  }
  return R"({"added_tokens":[{"id":258,"content":"<|endoftext|>","special":true}],"normalizer":null,
"pre_tokenizer":{"type":"Sequence","pretokenizers":[
{"type":"Split","pattern":{"Regex":" ?\\p{L}+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated"},
{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},
"model":{"type":"BPE","ignore_merges":true,"merges":["t h",["th","e"]],"vocab":{)" +
         vocabulary + R"("th":256,"the":257}}})";
}

FuzzTarget TokenizerJsonTarget(const std::shared_ptr<TestFolder>& folder) {
  return {"tokenizer_json",
          RefusalOf([=](std::string_view bytes) {
            UseTokenizer({.name = folder->Write("tokenizer.json", bytes), .finds_specials = true});
          }),
          {SmallTokenizerJson()}};
}

FuzzTarget MergesTarget(const std::shared_ptr<TestFolder>& folder) {
  folder->Write("vocab.json", ReadFile(engine::test::kTokenizerFolder + "/vocab.json"));
  return {"merges",
          RefusalOf([=](std::string_view bytes) {
            folder->Write("merges.txt", bytes);
            UseTokenizer({.name = "gpt2:" + folder->Path(""), .finds_specials = true});
          }),
          {"#version: 0.2\nh e\n\xC4\xA0 t\n\xC4\xA0t he\n"}};
}

// A text as JSON records and as one document, in chunks and whole.
FuzzTarget TextTarget(const std::shared_ptr<TestFolder>& folder) {
  std::shared_ptr<engine::Tokenizer> tokenizer = engine::test::GoldenTokenizer(true);
  const auto read = [=](std::string_view bytes) {
    const std::string path = folder->Write("text.jsonl", bytes);
    const engine::MappedFile file(path);
    const auto encoder = tokenizer->NewEncoder();
    for (const auto unit : {engine::DocumentUnit::kFile, engine::DocumentUnit::kLine,
                            engine::DocumentUnit::kJsonRecord}) {
      const engine::TextInput input = {.path = path, .unit = unit, .json_key = "text"};
      for (const auto& chunk : engine::CutIntoChunks(file, input, 0, 40, *tokenizer)) {
        TokenizeChunk(file, input, chunk, *encoder, tokenizer->end_of_document());
      }
    }
  };
  return {"text",
          RefusalOf(read),
          {"{\"text\": \"Don't say 123 caf\xC3\xA9s <|endoftext|> \\u00e9\"}\r\n\n{\"id\": 1, "
           "\"text\": \"  two\\n\"}\n"}};
}

FuzzTarget SentencePieceTarget(const std::shared_ptr<TestFolder>& folder) {
  using namespace engine::test;
  return {"sentencepiece",
          RefusalOf([=](std::string_view bytes) {
            UseTokenizer({.name = folder->Write("tiny.model", bytes)});
          }),
          {SentencePieceModel(kUnigram, kTinyPieces), SentencePieceModel(kBpe, kTinyPieces)}};
}

}  // namespace

std::vector<FuzzTarget> TextTargets() {
  const auto folder = std::make_shared<TestFolder>();
  std::vector<FuzzTarget> targets = {TokenizerJsonTarget(folder), MergesTarget(folder),
                                     TextTarget(folder)};
  if (engine::HasSentencePiece()) targets.push_back(SentencePieceTarget(folder));
  return targets;
}

}  // namespace tessera::fuzz
