// Token ids where they lie: a view of one run of tokens, and the interface of a file of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/data/data_split.h"
#include "engine/data/mapped_file.h"

namespace tessera::engine {

// How a file stores a token id, little endian.
enum class TokenType : uint8_t { kUInt8, kInt8, kUInt16, kInt16, kInt32, kUInt32, kInt64 };

int64_t SizeBytes(TokenType type);
std::string_view ToString(TokenType type);

// Megatron-LM's rule for a new file: u16 while the vocabulary has fewer than 65500 ids, else i32.
TokenType OptimalTokenType(int64_t vocab_size);

// `num_tokens` ids in a row; `data` may be unaligned and must outlive the view.
struct TokenView {
  const std::byte* data = nullptr;
  int64_t num_tokens = 0;
  TokenType type = TokenType::kUInt8;
};

// Writes tokens [first, first + count) of the view to `out`. An id outside int32 is cut:
// FindMaxToken is the check.
void CopyTokens(const TokenView& view, int64_t first, int64_t count, int32_t* out);

// A file of tokens: sequences in the order of the file. Safe to read from several threads.
class TokenStore {
 public:
  virtual ~TokenStore() = default;
  virtual int64_t num_sequences() const = 0;
  virtual int64_t num_documents() const = 0;
  virtual TokenType token_type() const = 0;
  // REQUIRES: 0 <= sequence < num_sequences().
  virtual TokenView Sequence(int64_t sequence) const = 0;
  // First sequence of a document, for documents 0 to num_documents(): the last is num_sequences().
  virtual int64_t DocumentIndex(int64_t document) const = 0;
  // The file that holds the tokens.
  virtual const MappedFile& token_bytes() const = 0;
  // The fields of the file's header by name, in their order; none for a raw file.
  virtual std::vector<std::pair<std::string, int64_t>> Header() const = 0;
};

// Highest token id of these sequences of the store; -1 where they have no tokens. Reads every token
// once, on several threads where there are many. Throws base::ConfigError, with the byte offset,
// for an id below 0 or above 2^31 - 1.
int32_t FindMaxToken(const TokenStore& store, SequenceRange range);
// Of all sequences.
int32_t FindMaxToken(const TokenStore& store);

}  // namespace tessera::engine
