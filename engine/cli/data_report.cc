#include "engine/cli/data_report.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

#include "cost_model/base/check.h"
#include "engine/cli/text_rows.h"
#include "engine/data/data_format.h"
#include "engine/data/dataset_report_json.h"

namespace tessera::engine {
namespace {

constexpr double kMegabyte = 1e6;
constexpr double kTerminalInterval_s = 0.1;
constexpr double kLogInterval_s = 2.0;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

BuildProgressPrinter::BuildProgressPrinter(bool quiet)
    : quiet_(quiet), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

void BuildProgressPrinter::Update(const BuildProgress& progress) {
  progress_ = progress;
  const double interval_s = is_terminal_ ? kTerminalInterval_s : kLogInterval_s;
  if (quiet_ || SecondsSince(last_print_) < interval_s) return;
  Print(is_terminal_ ? "\r" : "\n");
  last_print_ = Clock::now();
}

void BuildProgressPrinter::Finish() {
  if (!quiet_) Print("\n");
}

void BuildProgressPrinter::Print(const char* line_end) const {
  const auto done_bytes = static_cast<double>(progress_.done_bytes);
  const auto total_bytes = static_cast<double>(progress_.total_bytes);
  const double elapsed_s = SecondsSince(start_);
  const double bytes_per_s = elapsed_s > 0 ? done_bytes / elapsed_s : 0;
  const double left_s = bytes_per_s > 0 ? (total_bytes - done_bytes) / bytes_per_s : 0;
  std::fprintf(stderr, "tokenized %.1f of %.1f MB (%.0f %%) in %.1f s, %.1f MB/s, ETA %.0f s   %s",
               done_bytes / kMegabyte, total_bytes / kMegabyte,
               total_bytes > 0 ? 100 * done_bytes / total_bytes : 100.0, elapsed_s,
               bytes_per_s / kMegabyte, left_s, line_end);
}

void PrintBuildResult(const BuildResult& result, bool as_json) {
  if (as_json) {
    std::cout << ToJson(result) << '\n';
    return;
  }
  PrintNamed(std::cout, "tokens",
             base::Concat(result.bin_path, " (", ToString(result.token_type), ")"));
  PrintNamed(std::cout, "index", result.idx_path);
  PrintNamed(std::cout, "input files", result.num_inputs);
  PrintNamed(std::cout, "input bytes", result.input_bytes);
  PrintNamed(std::cout, "documents", result.num_documents);
  if (result.num_empty_documents > 0)
    PrintNamed(std::cout, "left out, empty", result.num_empty_documents);
  PrintNamed(std::cout, "tokens written", result.num_tokens);
  PrintNamed(std::cout, "tokenizer",
             base::Concat(result.tokenizer, ", vocabulary ", result.vocab_size));
}

void PrintSummary(const DatasetSummary& summary, bool as_json) {
  if (as_json) {
    std::cout << ToJson(summary) << '\n';
    return;
  }
  PrintNamed(std::cout, "file", summary.path);
  PrintNamed(std::cout, "data format", ToString(summary.format));
  PrintNamed(std::cout, "token type", ToString(summary.token_type));
  for (const auto& [name, value] : summary.header) PrintNamed(std::cout, "  " + name, value);
  PrintNamed(std::cout, "bytes", summary.token_bytes);
  PrintNamed(std::cout, "documents", summary.num_documents);
  PrintNamed(std::cout, "sequences",
             base::Concat(summary.num_sequences, " (", summary.shortest_sequence, " to ",
                          summary.longest_sequence, " tokens)"));
  PrintNamed(std::cout, "tokens", summary.num_tokens);
  if (summary.max_token) PrintNamed(std::cout, "highest token", *summary.max_token);
  std::string ids;
  for (const int32_t token : summary.first_tokens) ids += base::Concat(token, ' ');
  PrintNamed(std::cout, "first tokens", ids);
  if (!summary.first_text.empty()) PrintNamed(std::cout, "as text", summary.first_text);
  for (size_t i = 0; i < summary.documents.size(); ++i) {
    const DocumentSummary& document = summary.documents[i];
    PrintNamed(std::cout, base::Concat("document ", i),
               base::Concat(document.num_tokens, " tokens: ", document.first_text));
  }
}

}  // namespace tessera::engine
