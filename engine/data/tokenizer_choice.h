// Tokenizers by the name that a user gives.
#pragma once

#include <memory>
#include <string>

#include "engine/data/tokenizer.h"

namespace tessera::engine {

struct TokenizerOptions {
  // "bytes" (or "byte"), "gpt2:FOLDER", "sentencepiece:FILE", "FILE.json" (a tokenizer.json) or
  // "FILE.model" (SentencePiece's).
  std::string name = "bytes";
  bool ends_documents = false;  // bytes have a token for it only where it is wanted
  std::string end_of_document;  // another one than the tokenizer's usual
  bool finds_specials = false;  // as BpeOptions has it
};

// Throws base::ConfigError for a name of no such form, for files that cannot be read, for documents
// to be ended by a tokenizer that has no token for it, and for an option that the tokenizer lacks.
std::unique_ptr<Tokenizer> OpenTokenizer(const TokenizerOptions& options);

}  // namespace tessera::engine
