// Reader of Megatron-LM's indexed token data, PREFIX.bin and PREFIX.idx, mapped into memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/mapped_file.h"
#include "engine/data/token_store.h"

namespace tessera::engine {

class IndexedDataset final : public TokenStore {
 public:
  // Opens a prefix, or either file of its pair, and checks all of the .idx file against its own
  // length and that of the .bin file: magic number, version, type, counts, every length, pointer
  // and document index. Sequences must lie in file order without overlap and end where the .bin
  // file ends. Throws base::ConfigError naming file and byte for anything else.
  explicit IndexedDataset(const std::string& path);

  int64_t num_sequences() const override { return num_sequences_; }
  int64_t num_documents() const override { return num_document_indices_ - 1; }
  TokenType token_type() const override { return type_; }
  TokenView Sequence(int64_t sequence) const override;
  int64_t DocumentIndex(int64_t document) const override;
  const MappedFile& token_bytes() const override { return bin_; }
  std::vector<std::pair<std::string, int64_t>> Header() const override;

 private:
  void ReadHeader();
  void CheckSequences() const;
  void CheckDocuments() const;
  [[noreturn]] void Fail(int64_t byte, const std::string& found, const std::string& expected) const;

  int64_t LengthsOffset() const;
  int64_t PointersOffset() const;
  int64_t DocumentsOffset() const;
  int64_t Length(int64_t sequence) const;
  int64_t Pointer(int64_t sequence) const;

  MappedFile idx_;
  MappedFile bin_;
  TokenType type_ = TokenType::kUInt16;
  int64_t num_sequences_ = 0;
  int64_t num_document_indices_ = 0;
  bool has_modes_ = false;
};

}  // namespace tessera::engine
