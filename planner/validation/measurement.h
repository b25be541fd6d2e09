// A published measurement of a training run: what ran, and what its source says about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::planner {

// Sizes in the words of the source; what it leaves out has no value.
struct MeasuredModel {
  std::string name;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_attention_heads = 0;
  int64_t ffn_hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t sequence_length = 0;
  std::optional<int64_t> num_query_groups;
  std::optional<int64_t> head_dim;
  bool gated_mlp = false;
  bool tied_embeddings = false;
  std::string position;        // "learned", "rope", "alibi"
  std::string sliding_window;  // "128 on alternate layers"
  std::optional<int64_t> num_experts;
  std::optional<int64_t> moe_top_k;
  std::optional<int64_t> moe_ffn_hidden_size;
  std::optional<int64_t> moe_shared_ffn_hidden_size;
  std::optional<int64_t> num_moe_layers;
  std::optional<int64_t> q_lora_rank;
  std::optional<int64_t> kv_lora_rank;
  std::optional<int64_t> qk_nope_head_dim;
  std::optional<int64_t> qk_rope_head_dim;
  std::optional<int64_t> v_head_dim;
  std::optional<int64_t> num_multi_token_layers;
};

struct MeasuredHardware {
  std::string gpu;  // "A100-80GB-SXM"
  int64_t num_devices = 0;
  std::optional<int64_t> devices_per_node;
  std::optional<int64_t> nvlink_domain_size;
  std::string intra_node;  // "NVLink3 600GB/s"
  std::string inter_node;  // "8x200Gb HDR IB per node"
};

struct MeasuredLayout {
  int64_t tensor_parallel_size = 1;
  int64_t pipeline_parallel_size = 1;
  int64_t context_parallel_size = 1;
  int64_t expert_parallel_size = 1;
  std::optional<int64_t> data_parallel_size;
  std::optional<int64_t> expert_tensor_parallel_size;
  std::optional<int64_t> virtual_pipeline_size;
  std::optional<int64_t> micro_batch_size;
  std::optional<int64_t> global_batch_size;
  std::optional<bool> sequence_parallel;
  std::string recompute;          // "none", "selective", "full"
  std::string recompute_modules;  // "attention core"
  std::string schedule;           // "interleaved-1f1b"
  std::optional<int64_t> zero_stage;
  std::optional<int64_t> zero_group_size;
  std::string fsdp;       // "FULL_SHARD"
  std::string precision;  // "bf16"
  std::string grad_dtype;
  std::optional<bool> flash_attention;
  std::string attention_kernel;
  std::string context_kind;  // "a2a"
  std::string optimizer;
};

// Which memory a program or a tool reports.
enum class MemoryClass : uint8_t { kAllocated, kReserved, kNvidiaSmi, kUnspecified };
std::string_view ToString(MemoryClass memory_class);  // "allocated", "reserved", "nvidia_smi", ...

struct Measurement {
  int64_t line = 0;  // of its file
  std::string id;
  std::string source;
  std::string source_ref;
  std::string framework;
  std::string task = "pretrain";
  std::string quality;
  std::string notes;
  std::vector<std::string> flags;
  MeasuredModel model;
  MeasuredHardware hardware;
  MeasuredLayout layout;
  bool ran_out_of_memory = false;
  bool is_for_time = false;
  bool is_for_memory = false;
  std::optional<double> step_time_s;
  std::optional<double> peak_memory_bytes;
  MemoryClass memory_class = MemoryClass::kUnspecified;
  std::string memory_metric;  // "torch max_memory_allocated, last rank"

  bool HasFlag(std::string_view flag) const;
};

// One JSON object a line; empty lines are left out. Keys that nobody reads are allowed: rows are
// people's own records. Throws base::ConfigError with file, line, key, found and expected.
std::vector<Measurement> ReadMeasurements(const std::string& path);

}  // namespace tessera::planner
