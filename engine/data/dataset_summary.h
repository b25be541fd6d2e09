// A look inside a token file of any format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/sample_source.h"
#include "engine/data/token_store.h"

namespace tessera::engine {

struct SummaryOptions {
  int64_t num_first_tokens = 32;
  bool find_max_token = false;  // reads the whole file
  int64_t num_documents = 0;    // whose beginning is shown, each by as many tokens
  std::string tokenizer = {};   // that decodes them, as TokenizerOptions has it; empty: bytes
};

struct DocumentSummary {
  int64_t num_tokens = 0;
  std::vector<int32_t> first_tokens;
  std::string first_text;
};

struct DatasetSummary {
  std::string path;
  DataFormat format = DataFormat::kAuto;
  TokenType token_type = TokenType::kUInt16;
  std::vector<std::pair<std::string, int64_t>> header;  // the fields of the file, where it has any
  int64_t token_bytes = 0;                              // size of the file that holds the tokens
  int64_t num_documents = 0;
  int64_t num_sequences = 0;
  int64_t num_tokens = 0;
  int64_t shortest_sequence = 0;  // in tokens
  int64_t longest_sequence = 0;   // in tokens
  std::vector<int32_t> first_tokens;
  std::string first_text;  // of these; empty where they are no bytes and no tokenizer is given
  std::vector<DocumentSummary> documents;
  std::optional<int32_t> max_token;
};

// Throws base::ConfigError as OpenTokenStore and OpenTokenizer do, and for an id that the given
// tokenizer doesn't have.
DatasetSummary SummarizeDataset(const std::string& path, DataFormat format,
                                const SummaryOptions& options);

}  // namespace tessera::engine
