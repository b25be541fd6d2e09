#include "engine/data/dataset_builder.h"

#include <memory>
#include <span>

#include "cost_model/base/error.h"
#include "engine/data/indexed_dataset_writer.h"
#include "engine/data/ordered_work.h"

namespace tessera::engine {
namespace {

std::vector<MappedFile> OpenInputs(const BuildOptions& options) {
  std::vector<MappedFile> files;
  files.reserve(options.inputs.size());
  for (const TextInput& input : options.inputs) files.emplace_back(input.path);
  return files;
}

std::vector<TextChunk> CutInputs(const BuildOptions& options, const std::vector<MappedFile>& files,
                                 const Tokenizer& tokenizer) {
  std::vector<TextChunk> chunks;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::vector<TextChunk> cut = CutIntoChunks(
        files[i], options.inputs[i], static_cast<int64_t>(i), options.chunk_bytes, tokenizer);
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

[[noreturn]] void ThrowNoText(const BuildOptions& options) {
  const size_t num_inputs = options.inputs.size();
  throw base::ConfigError(
      options.inputs.front().path, "",
      num_inputs == 1 ? "a file without any text"
                      : base::Concat("no text, as in all of the ", num_inputs, " input files"),
      "text to tokenize");
}

BuildResult StartResult(const BuildOptions& options, const std::vector<MappedFile>& files,
                        const Tokenizer& tokenizer) {
  BuildResult result;
  result.num_inputs = static_cast<int64_t>(files.size());
  for (const MappedFile& file : files) result.input_bytes += file.size_bytes();
  result.tokenizer = tokenizer.name();
  result.vocab_size = tokenizer.vocab_size();
  result.token_type = OptimalTokenType(tokenizer.vocab_size());
  result.bin_path = options.output_prefix + ".bin";
  result.idx_path = options.output_prefix + ".idx";
  return result;
}

}  // namespace

BuildResult BuildIndexedDataset(const BuildOptions& options,
                                const std::function<void(const BuildProgress&)>& on_progress) {
  TESSERA_CHECK(options.num_workers > 0, options.num_workers, " workers");
  const std::unique_ptr<Tokenizer> tokenizer = OpenTokenizer(options.tokenizer);
  const std::vector<MappedFile> files = OpenInputs(options);
  const std::vector<TextChunk> chunks = CutInputs(options, files, *tokenizer);
  const auto end_of_document =
      options.tokenizer.ends_documents ? tokenizer->end_of_document() : std::nullopt;
  BuildResult result = StartResult(options, files, *tokenizer);
  IndexedDatasetWriter writer(options.output_prefix, result.token_type);

  const auto make_worker = [&] {
    return [&, encoder = tokenizer->NewEncoder()](size_t item) {
      const TextChunk& chunk = chunks[item];
      const auto input = static_cast<size_t>(chunk.input);
      return TokenizeChunk(files[input], options.inputs[input], chunk, *encoder, end_of_document);
    };
  };
  BuildProgress progress = {.done_bytes = 0, .total_bytes = result.input_bytes};
  size_t num_written = 0;
  OrderedWork<TokenizedChunk>(chunks.size())
      .Run(options.num_workers, make_worker, [&](const TokenizedChunk& tokenized) {
        if (options.stop != nullptr && options.stop->load()) {
          throw base::SystemError("interrupted: no file is written");
        }
        WriteChunk(tokenized, writer);
        result.num_empty_documents += tokenized.num_empty_documents;
        const TextChunk& chunk = chunks[num_written++];
        progress.done_bytes += chunk.end - chunk.begin;
        if (on_progress) on_progress(progress);
      });
  result.num_documents = writer.num_documents();
  result.num_tokens = writer.num_tokens();
  if (result.num_tokens == 0) ThrowNoText(options);
  writer.Finish();
  return result;
}

}  // namespace tessera::engine
