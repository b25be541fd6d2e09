// Writer of Megatron-LM's indexed token data, byte for byte as its own builder writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/data/output_file.h"
#include "engine/data/token_store.h"

namespace tessera::engine {

// Streams tokens to the .bin file; keeps 4 bytes a sequence and 8 a document for the .idx file.
//   writer.AddTokens(...); writer.EndSequence(); writer.EndDocument(); ...; writer.Finish();
// Nothing appears under the pair's names before Finish() is through. Throws base::SystemError for a
// failed write, base::ConfigError for a missing folder or a sequence of 2^31 tokens or more.
class IndexedDatasetWriter {
 public:
  // Writes prefix.bin and prefix.idx. REQUIRES: a type that the format has (not u32).
  IndexedDatasetWriter(const std::string& prefix, TokenType type);

  // Appends to the open sequence. REQUIRES: every id fits the type and is 0 or more.
  void AddTokens(std::span<const int32_t> tokens);
  void EndSequence();
  // REQUIRES: no tokens since EndSequence(). A document may hold any number of sequences.
  void EndDocument();
  // Makes both files durable and gives them their names. An older pair of the same name loses its
  // .idx first, so that a crash in between leaves no pair rather than a mixed one.
  // REQUIRES: every sequence and document is ended.
  void Finish();

  int64_t num_sequences() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t num_documents() const { return static_cast<int64_t>(document_indices_.size()) - 1; }
  int64_t num_tokens() const { return num_tokens_; }

 private:
  void WriteIndex();

  TokenType type_;
  OutputFile bin_;
  OutputFile idx_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> document_indices_ = {0};
  std::vector<std::byte> packed_;  // scratch of AddTokens
  int64_t open_tokens_ = 0;
  int64_t num_tokens_ = 0;
};

}  // namespace tessera::engine
