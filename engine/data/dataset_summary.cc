#include "engine/data/dataset_summary.h"

#include <algorithm>
#include <memory>

#include "cost_model/base/error.h"
#include "engine/data/byte_tokenizer.h"
#include "engine/data/data_format.h"
#include "engine/data/tokenizer_choice.h"

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

// Decodes what is shown.
class Decoder {
 public:
  Decoder(const std::string& tokenizer, const std::string& path) : path_(path) {
    if (!tokenizer.empty()) named_ = OpenTokenizer({.name = tokenizer});
  }

  std::string TextOf(const std::vector<int32_t>& tokens) const {
    if (!named_) return PrintableTokens(ByteTokenizer(/*has_end_of_document=*/true), tokens);
    for (const int32_t token : tokens) {
      if (named_->Decode({&token, 1})) continue;
      throw base::ConfigError(path_, "", base::Concat("token id ", token),
                              base::Concat("tokens of ", named_->name()));
    }
    return PrintableTokens(*named_, tokens);
  }

 private:
  const std::string& path_;
  std::unique_ptr<Tokenizer> named_;
};

DocumentSummary SummarizeDocument(const TokenStore& store, int64_t document, int64_t num_first,
                                  const Decoder& decoder) {
  DocumentSummary summary;
  for (int64_t i = store.DocumentIndex(document); i < store.DocumentIndex(document + 1); ++i) {
    summary.num_tokens += store.Sequence(i).num_tokens;
    AppendFirstTokens(store.Sequence(i), num_first, summary.first_tokens);
  }
  summary.first_text = decoder.TextOf(summary.first_tokens);
  return summary;
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
  const Decoder decoder(options.tokenizer, summary.path);
  summary.first_text = decoder.TextOf(summary.first_tokens);
  for (int64_t i = 0; i < std::min(options.num_documents, summary.num_documents); ++i) {
    summary.documents.push_back(SummarizeDocument(*store, i, options.num_first_tokens, decoder));
  }
  if (options.find_max_token) summary.max_token = FindMaxToken(*store);
  return summary;
}

}  // namespace tessera::engine
