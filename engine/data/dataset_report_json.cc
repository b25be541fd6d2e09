#include "engine/data/dataset_report_json.h"

#include <nlohmann/json.hpp>

#include "engine/data/data_format.h"

namespace tessera::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kIndent = 2;

// Paths are any bytes on Linux: what is not UTF-8 is replaced rather than refused.
std::string Dump(const Json& json) {
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string ToJson(const BuildResult& result) {
  Json json;
  json["bin"] = result.bin_path;
  json["idx"] = result.idx_path;
  json["token_type"] = ToString(result.token_type);
  json["tokenizer"] = result.tokenizer;
  json["vocab_size"] = result.vocab_size;
  json["inputs"] = result.num_inputs;
  json["input_bytes"] = result.input_bytes;
  json["documents"] = result.num_documents;
  json["empty_documents_left_out"] = result.num_empty_documents;
  json["tokens"] = result.num_tokens;
  return Dump(json);
}

std::string ToJson(const DatasetSummary& summary) {
  Json json;
  json["path"] = summary.path;
  json["data_format"] = ToString(summary.format);
  json["token_type"] = ToString(summary.token_type);
  json["header"] = Json::object();
  for (const auto& [name, value] : summary.header) json["header"][name] = value;
  json["file_bytes"] = summary.token_bytes;
  json["documents"] = summary.num_documents;
  json["sequences"] = summary.num_sequences;
  json["tokens"] = summary.num_tokens;
  json["shortest_sequence"] = summary.shortest_sequence;
  json["longest_sequence"] = summary.longest_sequence;
  json["first_tokens"] = summary.first_tokens;
  json["first_text"] = summary.first_text;
  for (const DocumentSummary& document : summary.documents) {
    json["first_documents"].push_back({{"tokens", document.num_tokens},
                                       {"first_tokens", document.first_tokens},
                                       {"first_text", document.first_text}});
  }
  if (summary.max_token) json["max_token"] = *summary.max_token;
  return Dump(json);
}

}  // namespace tessera::engine
