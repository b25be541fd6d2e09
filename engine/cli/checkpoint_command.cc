#include "engine/cli/checkpoint_command.h"

#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "cost_model/base/error.h"
#include "engine/checkpoint/hugging_face.h"
#include "engine/checkpoint/llmc_model.h"
#include "engine/cli/checkpoint_report.h"
#include "engine/cli/output_options.h"

namespace tessera::engine {
namespace {

constexpr std::string_view kHuggingFaceMark = "hf:";
constexpr std::string_view kLlmCMark = "llmc:";
constexpr double kBytesPerGigabyte = 1e9;
constexpr double kMinShardGigabytes = 0.001;
constexpr double kMaxShardGigabytes = 1e6;

constexpr const char* kCheckpointExamples = R"(Examples:
  tessera checkpoint inspect runs/gpt2
  tessera checkpoint verify runs/gpt2/step_00000100
  tessera checkpoint convert --from runs/gpt2 --to hf:gpt2-export
  tessera checkpoint convert --from hf:llama --to runs/llama
  tessera checkpoint convert --from llmc:gpt2_124M.bin --to runs/gpt2

A checkpoint of one layout is read by any other (tessera train --resume, --init checkpoint:DIR):
no conversion is needed to go on with other tensor, pipeline or data parallel sizes.)";

constexpr const char* kCheckpointInspectExamples = R"(Examples:
  tessera checkpoint inspect runs/gpt2                  (the newest complete checkpoint in it)
  tessera checkpoint inspect runs/gpt2/step_00000100 --tensors
  tessera checkpoint inspect hf:gpt2-export --format json
  tessera checkpoint inspect gpt2-export/model.safetensors)";

constexpr const char* kVerifyExamples = R"(Examples:
  tessera checkpoint verify runs/gpt2
  tessera checkpoint verify hf:gpt2-export

Of a native checkpoint every byte is held against its checksum, and the pieces against the model.
Of Hugging Face's form the headers and, where config.json is there, names and shapes are checked.
Exit code 0 when all is well, 2 when not; each problem is one line.)";

constexpr const char* kConvertExamples = R"(Examples:
  tessera checkpoint convert --from runs/gpt2 --to hf:gpt2-export
  tessera checkpoint convert --from runs/gpt2/step_00000100 --to hf:gpt2-export --max-shard-size 2
  tessera checkpoint convert --from hf:llama --to runs/llama
  tessera checkpoint convert --from llmc:gpt2_124M.bin --to runs/gpt2
  tessera checkpoint convert --from runs/gpt2 --to llmc:gpt2_bf16.bin --dtype bf16

To hf:DIR goes the weights' fp32 values with a config.json; a tokenizer is not ours to write. From
hf:DIR comes a checkpoint of step 0 without optimizer state, for --init checkpoint:DIR.
llmc:FILE is a model file of llm.c, of a GPT-2: version 3 (fp32) or 5 (bf16). Between hf: and llmc:
a native checkpoint lies.)";

struct CheckpointFlags {
  std::string path;
  std::string from;
  std::string to;
  std::string dtype = "fp32";
  double max_shard_gigabytes = static_cast<double>(kDefaultMaxShardBytes) / kBytesPerGigabyte;
  bool list_tensors = false;
  std::string format = "table";
  bool quiet = false;
};

// The mark of another program's form in front of a path; "" for none.
std::string_view MarkOf(const std::string& path) {
  for (const std::string_view mark : {kHuggingFaceMark, kLlmCMark}) {
    if (path.starts_with(mark)) return mark;
  }
  return "";
}

std::string WithoutMark(const std::string& path) { return path.substr(MarkOf(path).size()); }

void AddInspectCheckpoint(CLI::App& checkpoint, int& exit_code) {
  CLI::App* const command =
      checkpoint.add_subcommand("inspect", "Show what a checkpoint or a model's folder holds");
  command->footer(kCheckpointInspectExamples);
  // Owned by the option parser's callback, which outlives this function.
  const auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("path", flags->path, "A checkpoint, a save folder, hf:DIR or a .safetensors")
      ->required();
  command->add_flag("--tensors", flags->list_tensors, "List every tensor with its shape");
  AddOutputOptions(*command, flags->format, flags->quiet);
  command->callback([flags, &exit_code] {
    const CheckpointSummary summary = SummarizeCheckpoint(WithoutMark(flags->path));
    PrintSummary(summary, flags->list_tensors, flags->format == "json");
    exit_code = base::kExitDone;
  });
}

void AddVerifyCommand(CLI::App& checkpoint, int& exit_code) {
  CLI::App* const command =
      checkpoint.add_subcommand("verify", "Check checksums, completeness, names and shapes");
  command->footer(kVerifyExamples);
  // Owned by the option parser's callback, which outlives this function.
  const auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("path", flags->path, "A checkpoint, a save folder, or hf:DIR")->required();
  AddOutputOptions(*command, flags->format, flags->quiet);
  command->callback([flags, &exit_code] {
    const Verification result = VerifyCheckpoint(WithoutMark(flags->path));
    PrintVerification(result, flags->format == "json");
    exit_code = result.problems.empty() ? base::kExitDone : base::kExitWrongInput;
  });
}

// Returns the path written.
std::string Convert(const CheckpointFlags& flags) {
  const std::string from = WithoutMark(flags.from);
  const std::string to = WithoutMark(flags.to);
  if (MarkOf(flags.from).empty() == MarkOf(flags.to).empty()) {
    throw base::ConfigError("--from, --to", "", flags.from + " and " + flags.to,
                            "one of the two as hf:DIR or llmc:FILE (a native checkpoint is read by "
                            "any layout as it is)");
  }
  if (MarkOf(flags.from) == kHuggingFaceMark) return ConvertFromHuggingFace(from, to);
  if (MarkOf(flags.from) == kLlmCMark) return ConvertFromLlmC(from, to);
  if (MarkOf(flags.to) == kLlmCMark) {
    ConvertToLlmC(from, to, flags.dtype == "bf16" ? LlmCType::kBf16 : LlmCType::kFp32);
    return to;
  }
  ConvertToHuggingFace(from, to,
                       static_cast<int64_t>(flags.max_shard_gigabytes * kBytesPerGigabyte));
  return to;
}

void AddConvertCommand(CLI::App& checkpoint, int& exit_code) {
  CLI::App* const command = checkpoint.add_subcommand(
      "convert", "Native checkpoint to Hugging Face's or llm.c's form, or the other way");
  command->footer(kConvertExamples);
  // Owned by the option parser's callback, which outlives this function.
  const auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("--from", flags->from, "A checkpoint, a save folder, hf:DIR or llmc:FILE")
      ->required();
  command->add_option("--to", flags->to, "hf:DIR, llmc:FILE, or a save folder")->required();
  command->add_option("--dtype", flags->dtype, "Of the weights in an llmc:FILE: fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command
      ->add_option("--max-shard-size", flags->max_shard_gigabytes,
                   "Largest safetensors file in GB (10^9 bytes)")
      ->check(CLI::Range(kMinShardGigabytes, kMaxShardGigabytes))
      ->capture_default_str();
  command->add_flag("--quiet", flags->quiet,
                    "No progress and no notes: the result and errors only");
  command->callback([flags, &exit_code] {
    const std::string written = Convert(*flags);
    std::cout << "wrote " << written << '\n';
    exit_code = base::kExitDone;
  });
}

}  // namespace

void AddCheckpointCommand(CLI::App& app, int& exit_code) {
  CLI::App* const checkpoint =
      app.add_subcommand("checkpoint",
                         "Inspect, verify and convert checkpoints; Hugging Face safetensors and "
                         "llm.c's model files in "
                         "and out");
  checkpoint->footer(kCheckpointExamples);
  checkpoint->require_subcommand(1);
  AddInspectCheckpoint(*checkpoint, exit_code);
  AddVerifyCommand(*checkpoint, exit_code);
  AddConvertCommand(*checkpoint, exit_code);
}

}  // namespace tessera::engine
