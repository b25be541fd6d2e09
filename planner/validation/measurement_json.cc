#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/strict_json.h"
#include "planner/validation/measurement.h"
#include "planner/validation/row_reader_json.h"

namespace tessera::planner {
namespace {

using base::Concat;

MeasuredModel ReadModel(const RowReader& row) {
  MeasuredModel model;
  model.name = row.Text("name");
  model.num_layers = row.RequiredSize("num_layers");
  model.hidden_size = row.RequiredSize("hidden_size");
  model.num_attention_heads = row.RequiredSize("num_attention_heads");
  model.ffn_hidden_size = row.RequiredSize("ffn_hidden_size");
  model.vocab_size = row.RequiredSize("vocab_size");
  model.sequence_length = row.RequiredSize("seq_length");
  model.num_query_groups = row.Size("num_query_groups");
  model.head_dim = row.Size("head_dim");
  model.gated_mlp = row.Flag("gated_mlp");
  model.tied_embeddings = row.Flag("tied_embeddings");
  model.position = row.Text("position");
  model.sliding_window = row.Text("sliding_window");
  model.num_experts = row.Size("num_experts");
  model.moe_top_k = row.Size("moe_top_k");
  model.moe_ffn_hidden_size = row.Size("moe_ffn");
  model.moe_shared_ffn_hidden_size = row.Count("moe_shared_ffn");
  model.num_moe_layers = row.Size("num_moe_layers");
  model.q_lora_rank = row.Count("q_lora_rank");
  model.kv_lora_rank = row.Size("kv_lora_rank");
  model.qk_nope_head_dim = row.Size("qk_nope_head_dim");
  model.qk_rope_head_dim = row.Size("qk_rope_head_dim");
  model.v_head_dim = row.Size("v_head_dim");
  model.num_multi_token_layers = row.Count("mtp_layers");
  return model;
}

MeasuredHardware ReadHardware(const RowReader& row) {
  MeasuredHardware hardware;
  hardware.gpu = row.RequiredText("gpu");
  hardware.num_devices = row.RequiredSize("gpus");
  hardware.devices_per_node = row.Size("gpus_per_node");
  hardware.nvlink_domain_size = row.Size("nvlink_domain_size");
  hardware.intra_node = row.Text("intra_node");
  hardware.inter_node = row.Text("inter_node");
  return hardware;
}

MeasuredLayout ReadLayout(const RowReader& row) {
  MeasuredLayout layout;
  layout.tensor_parallel_size = row.Size("tp").value_or(1);
  layout.pipeline_parallel_size = row.Size("pp").value_or(1);
  layout.context_parallel_size = row.Size("cp").value_or(1);
  layout.expert_parallel_size = row.Size("ep").value_or(1);
  layout.data_parallel_size = row.Size("dp");
  layout.expert_tensor_parallel_size = row.Size("etp");
  layout.virtual_pipeline_size = row.Size("vpp");
  layout.micro_batch_size = row.Size("micro_batch_size");
  layout.global_batch_size = row.Size("global_batch_size");
  layout.sequence_parallel = row.OptionalFlag("sequence_parallel");
  layout.recompute = row.Text("recompute");
  layout.recompute_modules = row.Text("recompute_modules");
  layout.schedule = row.Text("pp_schedule");
  layout.zero_stage = row.Count("zero_stage");
  layout.zero_group_size = row.Size("zero_shard_group");
  layout.fsdp = row.Text("fsdp");
  layout.precision = row.RequiredText("precision");
  layout.grad_dtype = row.Text("grad_dtype");
  layout.flash_attention = row.OptionalFlag("flash_attention");
  layout.attention_kernel = row.Text("attention_kernel");
  layout.context_kind = row.Text("cp_comm_type");
  layout.optimizer = row.Text("optimizer");
  return layout;
}

MemoryClass ReadMemoryClass(const RowReader& measured) {
  const std::string name = measured.Text("memory_class");
  if (name.empty()) return MemoryClass::kUnspecified;
  std::vector<std::string> names;
  for (int i = 0; ToString(static_cast<MemoryClass>(i)) != "?"; ++i) {
    names.emplace_back(ToString(static_cast<MemoryClass>(i)));
    if (names.back() == name) return static_cast<MemoryClass>(i);
  }
  measured.Fail("memory_class", Concat('"', name, '"'), spec::QuotedList(names));
}

// The step time that a row derives from its source, else the one measured, else that of its
// throughput.
std::optional<double> ReadStepTime(const RowReader& row, const Measurement& measurement) {
  constexpr const char* kStepTime = "step_time_s";
  if (const auto derived = row.OptionalSection("derived")) {
    if (const auto step_time_s = derived->PositiveNumber(kStepTime)) return step_time_s;
  }
  const auto measured = row.OptionalSection("measured");
  if (!measured) return std::nullopt;
  if (const auto step_time_s = measured->PositiveNumber(kStepTime)) return step_time_s;
  const auto tokens_per_s = measured->PositiveNumber("tokens_per_s_per_gpu");
  const auto& batch = measurement.layout.global_batch_size;
  if (!tokens_per_s || !batch) return std::nullopt;
  return static_cast<double>(*batch) * static_cast<double>(measurement.model.sequence_length) /
         (*tokens_per_s * static_cast<double>(measurement.hardware.num_devices));
}

void ReadMemory(const RowReader& row, Measurement& measurement) {
  const auto measured = row.OptionalSection("measured");
  if (!measured) return;
  constexpr double kBytesPerGib = 1024.0 * 1024 * 1024;
  if (const auto gib = measured->PositiveNumber("peak_memory_gib")) {
    measurement.peak_memory_bytes = *gib * kBytesPerGib;
  }
  measurement.memory_class = ReadMemoryClass(*measured);
  measurement.memory_metric = measured->Text("memory_metric");
}

void ReadUse(const RowReader& row, Measurement& measurement) {
  const std::string outcome = row.Text("outcome");
  if (!outcome.empty() && outcome != "ok" && outcome != "oom") {
    row.Fail("outcome", Concat('"', outcome, '"'), "\"ok\" or \"oom\"");
  }
  measurement.ran_out_of_memory = outcome == "oom";
  measurement.is_for_time = measurement.step_time_s.has_value();
  measurement.is_for_memory = measurement.peak_memory_bytes.has_value();
  if (const auto use = row.OptionalSection("use_for")) {
    measurement.is_for_time &= use->OptionalFlag("time").value_or(true);
    measurement.is_for_memory &= use->OptionalFlag("memory").value_or(true);
  }
}

Measurement ReadMeasurement(const std::string& text, const std::string& where, int64_t line) {
  const nlohmann::json document = spec::ParseJson(text, where);
  const RowReader row(document, where);
  Measurement measurement;
  measurement.line = line;
  measurement.id = row.RequiredText("id");
  measurement.source = row.Text("source");
  measurement.source_ref = row.Text("source_ref");
  measurement.framework = row.Text("framework");
  if (const std::string task = row.Text("task"); !task.empty()) measurement.task = task;
  measurement.quality = row.Text("quality");
  measurement.notes = row.Text("notes");
  measurement.flags = row.Texts("flags");
  measurement.model = ReadModel(row.Section("model"));
  measurement.hardware = ReadHardware(row.Section("hardware"));
  measurement.layout = ReadLayout(row.Section("layout"));
  measurement.step_time_s = ReadStepTime(row, measurement);
  ReadMemory(row, measurement);
  ReadUse(row, measurement);
  return measurement;
}

}  // namespace

std::string_view ToString(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kAllocated:
      return "allocated";
    case MemoryClass::kReserved:
      return "reserved";
    case MemoryClass::kNvidiaSmi:
      return "nvidia_smi";
    case MemoryClass::kUnspecified:
      return "unspecified";
  }
  return "?";
}

bool Measurement::HasFlag(std::string_view flag) const {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

std::vector<Measurement> ReadMeasurements(const std::string& path) {
  const std::string text = spec::ReadTextFile(path);
  std::vector<Measurement> measurements;
  int64_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string row = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (row.find_first_not_of(" \t\r") == std::string::npos) continue;
    measurements.push_back(ReadMeasurement(row, Concat(path, ": line ", line), line));
  }
  return measurements;
}

}  // namespace tessera::planner
