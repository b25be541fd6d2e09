#include "engine/data/dataset_summary.h"

#include <algorithm>
#include <memory>

#include "engine/data/byte_tokenizer.h"
#include "engine/data/data_format.h"

namespace tessera::engine {
namespace {

void AppendFirstTokens(const TokenView& sequence, int64_t num_wanted,
                       std::vector<int32_t>& tokens) {
  const auto held = static_cast<int64_t>(tokens.size());
  const int64_t count = std::min(sequence.num_tokens, num_wanted - held);
  if (count <= 0) return;
  tokens.resize(static_cast<size_t>(held + count));
  CopyTokens(sequence, 0, count, tokens.data() + held);
}

}  // namespace

DatasetSummary SummarizeDataset(const std::string& path, DataFormat format,
                                const SummaryOptions& options) {
  if (format == DataFormat::kAuto) format = DetectDataFormat(path);
  const std::unique_ptr<TokenStore> store = OpenTokenStore(path, format);
  DatasetSummary summary;
  summary.path = store->token_bytes().path();
  summary.format = format;
  summary.token_type = store->token_type();
  summary.header = store->Header();
  summary.token_bytes = store->token_bytes().size_bytes();
  summary.num_documents = store->num_documents();
  summary.num_sequences = store->num_sequences();
  for (int64_t i = 0; i < summary.num_sequences; ++i) {
    const TokenView sequence = store->Sequence(i);
    const int64_t length = sequence.num_tokens;
    summary.num_tokens += length;
    summary.shortest_sequence = i == 0 ? length : std::min(summary.shortest_sequence, length);
    summary.longest_sequence = std::max(summary.longest_sequence, length);
    AppendFirstTokens(sequence, options.num_first_tokens, summary.first_tokens);
  }
  summary.first_text = PrintableBytes(summary.first_tokens);
  if (options.find_max_token) summary.max_token = FindMaxToken(*store);
  return summary;
}

}  // namespace tessera::engine
