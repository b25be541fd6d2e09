#include "engine/cli/data_command.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/cli/data_report.h"
#include "engine/cli/interrupt.h"
#include "engine/cli/output_options.h"
#include "engine/data/data_format.h"
#include "engine/data/dataset_builder.h"
#include "engine/data/dataset_summary.h"

namespace tessera::engine {
namespace {

constexpr const char* kDataExamples = R"(Examples:
  tessera data build book.txt --out book --append-eod
  tessera data build shard-*.jsonl --tokenizer gpt2:gpt2/ --append-eod --workers 8 --out corpus
  tessera data inspect corpus --tokenizer gpt2:gpt2/ --documents 3
  tessera data inspect tokens.bin --data-format raw-u16 --format json)";

constexpr const char* kBuildExamples = R"(Examples:
  tessera data build book.txt --out book --append-eod
  tessera data build poems.txt --split-lines --append-eod --out poems
  tessera data build web.jsonl --json-key content --tokenizer gpt2:gpt2/ --append-eod --out web
  tessera data build web.jsonl --tokenizer llama3/tokenizer.json --append-eod --out web
  tessera data build web.jsonl --tokenizer sentencepiece:llama2/tokenizer.model --out web

Files whose name ends in .jsonl hold one JSON object a line; with --json-key all files do. Of any
other file all text is one document, or each line with --split-lines. Documents without text are
left out. The files are Megatron-LM's: `--out book` writes book.bin and book.idx; Ctrl-C leaves
none.

Tokenizers: bytes (token i is byte i; an end of document is token 256, which makes a vocabulary of
257); gpt2:FOLDER (GPT-2's vocab.json and merges.txt); FILE.json (a tokenizer.json of Hugging Face:
byte-level BPE as of GPT-2 or Llama 3); sentencepiece:FILE, or FILE.model. --append-eod ends
documents with <|endoftext|>, <|end_of_text|>, </s> or <eos>, whichever the vocabulary has, or with
--eod-token. No other special token is added.)";

constexpr const char* kDataInspectExamples = R"(Examples:
  tessera data inspect corpus                 (corpus.bin and corpus.idx)
  tessera data inspect book.txt               (bytes as tokens)
  tessera data inspect corpus --tokenizer gpt2:gpt2/ --documents 5 --tokens 100
  tessera data inspect tokens.bin --data-format raw-u16 --scan
  tessera data inspect fineweb_train_000001.bin --format json

The whole .idx file is checked against its own length and that of the .bin file.)";

constexpr int kMaxWorkers = 1024;
constexpr int kMaxTokensShown = 1'000'000;

struct BuildFlags {
  std::vector<std::string> inputs;
  std::string output_prefix;
  std::string json_key = "text";
  TokenizerOptions tokenizer;
  bool split_lines = false;
  int num_workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::string format = "table";
  bool quiet = false;
};

struct InspectFlags {
  std::string path;
  std::string data_format = "auto";
  SummaryOptions summary;
  std::string format = "table";
  bool quiet = false;
};

void AddTokenizerOptions(CLI::App& command, TokenizerOptions& tokenizer) {
  command
      .add_option("--tokenizer", tokenizer.name,
                  "bytes, gpt2:FOLDER, FILE.json, sentencepiece:FILE or FILE.model")
      ->capture_default_str();
  CLI::Option* const append_eod = command.add_flag("--append-eod", tokenizer.ends_documents,
                                                   "End each document with a token for it");
  command
      .add_option("--eod-token", tokenizer.end_of_document,
                  "Text of that token, where it is not a usual one")
      ->needs(append_eod);
  command.add_flag("--parse-special", tokenizer.finds_specials,
                   "The text of a special token, as <|endoftext|>, becomes that token; else it is "
                   "text like any other");
}

// A user may name either file of the pair.
std::string PrefixOf(std::string output) {
  if (output.ends_with(".bin") || output.ends_with(".idx")) output.resize(output.size() - 4);
  return output;
}

BuildOptions MakeBuildOptions(const BuildFlags& flags, bool all_are_json) {
  BuildOptions options;
  for (const std::string& path : flags.inputs) {
    const bool is_json = all_are_json || path.ends_with(".jsonl");
    const DocumentUnit unit = is_json             ? DocumentUnit::kJsonRecord
                              : flags.split_lines ? DocumentUnit::kLine
                                                  : DocumentUnit::kFile;
    options.inputs.push_back({.path = path, .unit = unit, .json_key = flags.json_key});
  }
  options.output_prefix = PrefixOf(flags.output_prefix);
  options.tokenizer = flags.tokenizer;
  options.num_workers = flags.num_workers;
  options.stop = &CatchInterrupts();
  return options;
}

void RunBuild(const BuildFlags& flags, bool all_are_json) {
  BuildProgressPrinter progress(flags.quiet);
  const BuildResult result =
      BuildIndexedDataset(MakeBuildOptions(flags, all_are_json),
                          [&](const BuildProgress& now) { progress.Update(now); });
  progress.Finish();
  PrintBuildResult(result, flags.format == "json");
}

void AddBuildCommand(CLI::App& data, int& exit_code) {
  CLI::App* const command =
      data.add_subcommand("build", "Turn text or JSON lines into .bin and .idx files");
  command->footer(kBuildExamples);
  // Owned by the option parser's callback, which outlives this function.
  const auto flags = std::make_shared<BuildFlags>();
  command->add_option("inputs,--input", flags->inputs, "Text or JSON lines files")->required();
  command->add_option("--out,--output-prefix", flags->output_prefix, "Prefix of the files written")
      ->required();
  CLI::Option* const json_key = command
                                    ->add_option("--json-key,--json-keys", flags->json_key,
                                                 "All files are JSON lines; the key of their text")
                                    ->capture_default_str();
  command->add_flag("--split-lines", flags->split_lines, "Each line of a text file is a document")
      ->excludes(json_key);
  AddTokenizerOptions(*command, flags->tokenizer);
  command->add_option("--workers", flags->num_workers, "Threads; the files don't depend on it")
      ->check(CLI::Range(1, kMaxWorkers))
      ->capture_default_str();
  AddOutputOptions(*command, flags->format, flags->quiet);
  command->callback([flags, json_key, &exit_code] {
    RunBuild(*flags, json_key->count() > 0);
    exit_code = base::kExitDone;
  });
}

void AddInspectData(CLI::App& data, int& exit_code) {
  CLI::App* const command = data.add_subcommand(
      "inspect", "Show header, token type, counts and first tokens of a token file");
  command->footer(kDataInspectExamples);
  // Owned by the option parser's callback, which outlives this function.
  const auto flags = std::make_shared<InspectFlags>();
  command->add_option("path", flags->path, "A token file, or the prefix of a .bin and .idx pair")
      ->required();
  command
      ->add_option("--data-format", flags->data_format,
                   "auto, idx, raw-u8, raw-u16, raw-i32 or llmc")
      ->capture_default_str();
  command->add_option("--tokens", flags->summary.num_first_tokens, "First tokens to show")
      ->check(CLI::Range(0, kMaxTokensShown))
      ->capture_default_str();
  command->add_option("--tokenizer", flags->summary.tokenizer,
                      "That decodes the tokens shown, as of `data build` (default: bytes, where "
                      "they are)");
  command
      ->add_option("--documents", flags->summary.num_documents,
                   "First documents to show, each by its first --tokens tokens")
      ->check(CLI::Range(0, kMaxTokensShown))
      ->capture_default_str();
  command->add_flag("--scan", flags->summary.find_max_token,
                    "Read every token to find the highest");
  AddOutputOptions(*command, flags->format, flags->quiet);
  command->callback([flags, &exit_code] {
    const DatasetSummary summary =
        SummarizeDataset(flags->path, DataFormatFromString(flags->data_format), flags->summary);
    PrintSummary(summary, flags->format == "json");
    exit_code = base::kExitDone;
  });
}

}  // namespace

void AddDataCommand(CLI::App& app, int& exit_code) {
  CLI::App* const data =
      app.add_subcommand("data", "Text to token files, and a look inside token files");
  data->footer(kDataExamples);
  data->require_subcommand(1);
  AddBuildCommand(*data, exit_code);
  AddInspectData(*data, exit_code);
}

}  // namespace tessera::engine
