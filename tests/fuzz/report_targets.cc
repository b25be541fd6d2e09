// What trainings and other commands report: measurements and their rules, steps, traces.
#include "cost_model/spec/timeline.h"
#include "cost_model/spec/trace_json.h"
#include "planner/validation/measurement.h"
#include "planner/validation/row_rules_json.h"
#include "planner/what_if/step_report_json.h"
#include "tests/fuzz/fuzz_target.h"

namespace tessera::fuzz {
namespace {

constexpr char kMeasurements[] =
    R"({"id": "a/1", "source": "a paper", "framework": "Megatron-LM", "quality": "A",
 "flags": ["seq_length_assumed"], "use_for": {"time": true, "memory": false},
 "model": {"name": "GPT", "num_layers": 24, "hidden_size": 1920, "num_attention_heads": 15,
 "ffn_hidden_size": 7680, "vocab_size": 51200, "seq_length": 1024, "num_experts": 8, "moe_top_k": 2},
 "hardware": {"gpu": "V100", "gpus": 8, "gpus_per_node": 16, "inter_node": "HDR"},
 "layout": {"tp": 2, "pp": 2, "dp": 2, "micro_batch_size": 8, "global_batch_size": 16,
 "sequence_parallel": true, "recompute": "full", "zero_stage": 1, "precision": "fp16"},
 "outcome": "ok", "measured": {"step_time_s": 1.121, "peak_memory_gib": 30.5, "memory_class": "allocated"}})";
constexpr char kRules[] =
    R"({"source": "words", "rules": [
 {"when": {"gpu": "A100", "fsdp": "full"}, "cluster": "dgx-a100-80gb", "recompute_in_truth": "full"},
 {"when": {"framework": "x"}, "runtime": "megatron-core", "runtime_changes": {"host_time_factor": 0.5},
 "layout_changes": {"attention": "flash", "rank_order": "tp-cp-ep-dp-pp", "bucket_elements": 1000}}]})";
constexpr char kEstimate[] =
    R"({"step_time_s": 1.5, "tokens_per_s": 1e4, "model_tflops_per_device": 120, "mfu": 0.4,
 "time": {"tp_comm_s": 0.2, "bubble_s": 0.1, "other_s": 0.05}, "compute": {"forward_s": 0.3}})";
constexpr char kTrained[] =
    R"({"measured": {"step_time_s": 1.5, "tokens_per_s": 1e4, "time": {"forward_s": 0.5}}})";
constexpr char kMetrics[] =
    R"({"step": 1, "loss": 5.5, "step_time_s": 2.5, "forward_s": 0.5}
{"step": 2, "loss": 5.25, "step_time_s": 1.5, "forward_s": 0.5, "pp_wait_s": 0.25}
{"step": 3, "loss": 5.0, "step_time_s": 1.25, "forward_s": 0.5, "mfu": 0.25}
)";

// On a line each, as the file of measurements has them.
std::string OnOneLine(std::string text) {
  for (char& each : text) {
    if (each == '\n') each = ' ';
  }
  return text + "\n";
}

std::string SmallTrace() {
  spec::TraceProcess process;
  process.name = "rank 0";
  process.timeline = {.actions = {{.action = {}, .start_s = 0, .end_s = 1}},
                      .phases = {{.start_s = 1, .end_s = 1.5}},
                      .memory = {{.time_s = 0.5, .num_bytes = 1024}}};
  return spec::TraceText({process});
}

}  // namespace

std::vector<FuzzTarget> ReportTargets() {
  const std::string row = OnOneLine(kMeasurements);
  return {FileTarget("measurements", ".jsonl",
                     [](const std::string& path) { planner::ReadMeasurements(path); }, {row + row}),
          FileTarget("measurement_rules", ".json",
                     [](const std::string& path) { planner::ReadRowRules(path); }, {kRules}),
          FileTarget("step_report", ".json",
                     [](const std::string& path) { planner::ReadStepReport(path); },
                     {kEstimate, kTrained, kMetrics}),
          FileTarget("trace", ".json", [](const std::string& path) { spec::LoadTraceEvents(path); },
                     {SmallTrace()})};
}

}  // namespace tessera::fuzz
