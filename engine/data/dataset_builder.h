// Turns text into Megatron-LM's indexed token data.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/data/text_chunk.h"
#include "engine/data/token_store.h"
#include "engine/data/tokenizer_choice.h"

namespace tessera::engine {

struct BuildOptions {
  std::vector<TextInput> inputs;   // tokenized in this order
  std::string output_prefix = {};  // of the .bin and .idx file
  TokenizerOptions tokenizer = {};
  int num_workers = 1;                      // threads; the files don't depend on it
  int64_t chunk_bytes = int64_t{1} << 20;   // that a worker takes at a time; nor on this
  const std::atomic<bool>* stop = nullptr;  // set from outside: leave without writing
};

struct BuildProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
};

struct BuildResult {
  int64_t num_inputs = 0;
  int64_t input_bytes = 0;
  int64_t num_documents = 0;
  int64_t num_empty_documents = 0;  // left out
  int64_t num_tokens = 0;
  std::string tokenizer;
  int64_t vocab_size = 0;
  TokenType token_type = TokenType::kUInt16;
  std::string bin_path;
  std::string idx_path;
};

// Tokenizes the inputs and writes the pair of files, each document as one sequence. Calls
// on_progress on this thread after each chunk. Throws base::ConfigError for a missing input, a
// broken record (with its line), inputs without any text or a tokenizer that OpenTokenizer refuses,
// base::SystemError when stopped; then no file is written.
BuildResult BuildIndexedDataset(const BuildOptions& options,
                                const std::function<void(const BuildProgress&)>& on_progress);

}  // namespace tessera::engine
