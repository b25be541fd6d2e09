// Tokenizers of the SentencePiece library.
#pragma once

#include <memory>
#include <string>

#include "engine/data/tokenizer.h"

namespace tessera::engine {

struct SentencePieceOptions {
  std::string name;  // for reports
  std::string
      end_of_document;  // the piece; empty: the model's own end of a sentence, where it has one
};

// Whether this build has the library.
bool HasSentencePiece();

// Opens a model file. A document is encoded as it is, without begin and end of a sentence; what the
// model's normalization changes (with most models spaces and line ends), decoding does not bring
// back. Throws base::ConfigError for a file that is missing or no model, an end of document that is
// no piece, or a build without the library.
std::unique_ptr<Tokenizer> OpenSentencePiece(const std::string& path,
                                             const SentencePieceOptions& options);

}  // namespace tessera::engine
