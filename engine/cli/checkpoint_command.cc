#include "engine/cli/checkpoint_command.h"

#include <iostream>
#include <memory>
#include <string>

#include "cost_model/base/error.h"
#include "engine/checkpoint/hugging_face.h"
#include "engine/cli/checkpoint_report.h"

namespace tessera::engine {
namespace {

constexpr const char* kHuggingFaceMark = "hf:";
constexpr double kBytesPerGigabyte = 1e9;
constexpr double kMinShardGigabytes = 0.001;
constexpr double kMaxShardGigabytes = 1e6;

constexpr const char* kCheckpointExamples = R"(Examples:
  tessera checkpoint inspect runs/gpt2
  tessera checkpoint verify runs/gpt2/step_00000100
  tessera checkpoint convert --from runs/gpt2 --to hf:gpt2-export
  tessera checkpoint convert --from hf:llama --to runs/llama

A checkpoint of one layout is read by any other (tessera train --resume, --init checkpoint:DIR):
no conversion is needed to go on with other tensor, pipeline or data parallel sizes.)";

constexpr const char* kInspectExamples = R"(Examples:
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

To hf:DIR goes the weights' fp32 values with a config.json; a tokenizer is not ours to write. From
hf:DIR comes a checkpoint of step 0 without optimizer state.)";

struct CheckpointFlags {
  std::string path;
  std::string from;
  std::string to;
  double max_shard_gigabytes = static_cast<double>(kDefaultMaxShardBytes) / kBytesPerGigabyte;
  bool list_tensors = false;
  std::string format = "table";
  bool quiet = false;
};

bool HasMark(const std::string& path) { return path.starts_with(kHuggingFaceMark); }

std::string WithoutMark(const std::string& path) {
  return HasMark(path) ? path.substr(std::string_view(kHuggingFaceMark).size()) : path;
}

void AddOutputOptions(CLI::App& command, CheckpointFlags& flags) {
  command.add_option("--format", flags.format, "How results are printed")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  command.add_flag("--quiet", flags.quiet, "No progress and no notes: the result and errors only");
}

void AddInspectCommand(CLI::App& checkpoint, int& exit_code) {
  CLI::App* const command =
      checkpoint.add_subcommand("inspect", "Show what a checkpoint or a model's folder holds");
  command->footer(kInspectExamples);
  // Owned by the option parser's callback, which outlives this function.
  const auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("path", flags->path, "A checkpoint, a save folder, hf:DIR or a .safetensors")
      ->required();
  command->add_flag("--tensors", flags->list_tensors, "List every tensor with its shape");
  AddOutputOptions(*command, *flags);
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
  AddOutputOptions(*command, *flags);
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
  if (HasMark(flags.from) == HasMark(flags.to)) {
    throw base::ConfigError("--from, --to", "", flags.from + " and " + flags.to,
                            "one of the two as hf:DIR (a native checkpoint is read by any layout "
                            "as it is)");
  }
  if (HasMark(flags.from)) return ConvertFromHuggingFace(from, to);
  ConvertToHuggingFace(from, to,
                       static_cast<int64_t>(flags.max_shard_gigabytes * kBytesPerGigabyte));
  return to;
}

void AddConvertCommand(CLI::App& checkpoint, int& exit_code) {
  CLI::App* const command = checkpoint.add_subcommand(
      "convert", "Native checkpoint to Hugging Face's form, or the other way");
  command->footer(kConvertExamples);
  // Owned by the option parser's callback, which outlives this function.
  const auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("--from", flags->from, "A checkpoint, a save folder, or hf:DIR")->required();
  command->add_option("--to", flags->to, "hf:DIR, or a save folder")->required();
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
  CLI::App* const checkpoint = app.add_subcommand(
      "checkpoint", "Inspect, verify and convert checkpoints; Hugging Face safetensors in and out");
  checkpoint->footer(kCheckpointExamples);
  checkpoint->require_subcommand(1);
  AddInspectCommand(*checkpoint, exit_code);
  AddVerifyCommand(*checkpoint, exit_code);
  AddConvertCommand(*checkpoint, exit_code);
}

}  // namespace tessera::engine
