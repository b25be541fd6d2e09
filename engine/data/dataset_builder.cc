#include "engine/data/dataset_builder.h"

#include <deque>
#include <future>
#include <span>

#include "cost_model/base/error.h"
#include "engine/data/indexed_dataset_writer.h"

namespace tessera::engine {
namespace {

std::vector<MappedFile> OpenInputs(const BuildOptions& options) {
  std::vector<MappedFile> files;
  files.reserve(options.inputs.size());
  for (const TextInput& input : options.inputs) files.emplace_back(input.path);
  return files;
}

std::vector<TextChunk> CutInputs(const BuildOptions& options,
                                 const std::vector<MappedFile>& files) {
  std::vector<TextChunk> chunks;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::vector<TextChunk> cut =
        CutIntoChunks(files[i], options.inputs[i], static_cast<int64_t>(i), options.chunk_bytes);
    chunks.insert(chunks.end(), cut.begin(), cut.end());
  }
  return chunks;
}

void WriteChunk(const TokenizedChunk& chunk, IndexedDatasetWriter& writer) {
  std::span<const int32_t> tokens(chunk.tokens);
  for (const int64_t length : chunk.document_lengths) {
    writer.AddTokens(tokens.first(static_cast<size_t>(length)));
    writer.EndSequence();
    writer.EndDocument();
    tokens = tokens.subspan(static_cast<size_t>(length));
  }
  writer.AddTokens(tokens);
}

}  // namespace

BuildResult BuildIndexedDataset(const BuildOptions& options,
                                const std::function<void(const BuildProgress&)>& on_progress) {
  TESSERA_CHECK(options.num_workers > 0, options.num_workers, " workers");
  const std::vector<MappedFile> files = OpenInputs(options);
  const std::vector<TextChunk> chunks = CutInputs(options, files);
  const ByteTokenizer tokenizer(options.append_end_of_document);
  BuildResult result;
  result.num_inputs = static_cast<int64_t>(files.size());
  result.vocab_size = tokenizer.vocab_size();
  result.token_type = OptimalTokenType(tokenizer.vocab_size());
  result.bin_path = options.output_prefix + ".bin";
  result.idx_path = options.output_prefix + ".idx";
  for (const MappedFile& file : files) result.input_bytes += file.size_bytes();

  IndexedDatasetWriter writer(options.output_prefix, result.token_type);
  const auto tokenize = [&](const TextChunk& chunk) {
    const auto input = static_cast<size_t>(chunk.input);
    return TokenizeChunk(files[input], options.inputs[input], chunk, tokenizer);
  };
  // As many chunks at work as there are workers, taken in their order: memory stays bounded, and
  // the first broken record in the order of the inputs is the one reported.
  std::deque<std::future<TokenizedChunk>> at_work;
  BuildProgress progress = {.done_bytes = 0, .total_bytes = result.input_bytes};
  size_t next = 0;
  for (const TextChunk& chunk : chunks) {
    while (next < chunks.size() && at_work.size() < static_cast<size_t>(options.num_workers)) {
      at_work.push_back(std::async(std::launch::async, tokenize, chunks[next++]));
    }
    const TokenizedChunk tokenized = at_work.front().get();
    at_work.pop_front();
    WriteChunk(tokenized, writer);
    result.num_empty_documents += tokenized.num_empty_documents;
    progress.done_bytes += chunk.end - chunk.begin;
    if (on_progress) on_progress(progress);
  }
  result.num_documents = writer.num_documents();
  result.num_tokens = writer.num_tokens();
  if (result.num_tokens == 0) {
    throw base::ConfigError(
        options.inputs.front().path, "",
        result.num_inputs == 1
            ? "a file without any text"
            : base::Concat("no text, as in all of the ", result.num_inputs, " input files"),
        "text to tokenize");
  }
  writer.Finish();
  return result;
}

}  // namespace tessera::engine
