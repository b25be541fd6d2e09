// Stands in for sentencepiece_tokenizer.cc in a build without the library.
#include "cost_model/base/error.h"
#include "engine/data/sentencepiece_tokenizer.h"

namespace tessera::engine {

bool HasSentencePiece() { return false; }

std::unique_ptr<Tokenizer> OpenSentencePiece(const std::string& path,
                                             const SentencePieceOptions& /*options*/) {
  throw base::ConfigError(path, "", "a build without SentencePiece",
                          "one with it (install libsentencepiece-dev, configure and build again)");
}

}  // namespace tessera::engine
