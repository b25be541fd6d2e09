// The rules between model, batch and layout. A layout that keeps them all builds no string.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/base/check.h"
#include "cost_model/spec/parallel_spec.h"
#include "cost_model/spec/pipeline_violations.h"
#include "cost_model/spec/training_violations.h"

namespace tessera::spec {
namespace {

using base::Concat;

// Products of two sizes below it fit in int64_t.
constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

class Rules {
 public:
  Rules(const ModelSpec& model, const TrainingSpec& training, const ParallelSpec& parallel)
      : model_(model), training_(training), parallel_(parallel) {}

  std::vector<Violation> Find(int num_devices) && {
    CheckSizes();
    if (!violations_.empty()) return std::move(violations_);  // no division by such sizes
    CheckWorld(num_devices);
    if (WorldRanks() > static_cast<double>(kMaxSize)) return std::move(violations_);
    CheckTensorParallel();
    CheckSequence();
    CheckBatch();
    AddPipelineViolations(model_, training_, parallel_, violations_);
    AddTrainingViolations(model_, training_, parallel_, violations_);
    CheckExperts();
    CheckSharding();
    return std::move(violations_);
  }

 private:
  void Add(const char* constraint, int64_t needed, int64_t available, const char* unit,
           std::string message) {
    violations_.push_back(MakeViolation(constraint, needed, available, unit, std::move(message)));
  }

  void CheckSize(const char* name, int64_t value) {
    if (value >= 1 && value <= kMaxSize) return;
    const int64_t limit = value < 1 ? 1 : kMaxSize;
    Add("sizes in range", limit, value, "",
        Concat(name, " is ", value, ", but must be at ", value < 1 ? "least " : "most ", limit));
  }

  void CheckSizes() {
    CheckSize("num_layers", model_.num_layers);
    CheckSize("hidden_size", model_.hidden_size);
    CheckSize("num_attention_heads", model_.num_attention_heads);
    CheckSize("num_key_value_heads", model_.num_key_value_heads);
    CheckSize("head_dim", model_.head_dim);
    CheckSize("ffn_hidden_size", model_.ffn_hidden_size);
    CheckSize("vocab_size", model_.vocab_size);
    if (model_.moe) {
      CheckSize("num_experts", model_.moe->num_experts);
      CheckSize("experts_per_token", model_.moe->experts_per_token);
      CheckSize("expert_ffn_hidden_size", model_.moe->expert_ffn_hidden_size);
    }
    CheckSize("global_batch_size", training_.global_batch_size);
    CheckSize("sequence_length", training_.sequence_length);
    CheckSize("tensor_parallel_size", parallel_.tensor_parallel_size);
    CheckSize("pipeline_parallel_size", parallel_.pipeline_parallel_size);
    CheckSize("data_parallel_size", parallel_.data_parallel_size);
    CheckSize("context_parallel_size", parallel_.context_parallel_size);
    CheckSize("expert_parallel_size", parallel_.expert_parallel_size);
    if (parallel_.expert_tensor_parallel_size != 0) {
      CheckSize("expert_tensor_parallel_size", parallel_.expert_tensor_parallel_size);
    }
    CheckSize("virtual_pipeline_size", parallel_.virtual_pipeline_size);
    CheckSize("micro_batch_size", parallel_.micro_batch_size);
    CheckSize("vocab_size_multiple", parallel_.vocab_size_multiple);
    CheckSize("bucket_elements", parallel_.bucket_elements);
    if (parallel_.zero_stage < 0 || parallel_.zero_stage > 3) {
      Add("zero stage", 3, parallel_.zero_stage, "",
          Concat("ZeRO stage ", parallel_.zero_stage, " is none of 0, 1, 2, 3"));
    }
    if (parallel_.zero_group_size < 0) CheckSize("zero_group_size", parallel_.zero_group_size);
  }

  // In double: four sizes in range may overflow an int64_t together.
  double ReplicaRanks() const {
    return static_cast<double>(parallel_.tensor_parallel_size) * parallel_.context_parallel_size *
           parallel_.pipeline_parallel_size;
  }
  double WorldRanks() const { return ReplicaRanks() * parallel_.data_parallel_size; }

  void CheckWorld(int num_devices) {
    const double replica = ReplicaRanks();
    const double world = WorldRanks();
    if (world > static_cast<double>(kMaxSize)) {
      violations_.push_back({"world size",
                             Concat("the layout asks for ", world, " ranks, more than ", kMaxSize),
                             world, static_cast<double>(kMaxSize), "devices"});
      return;
    }
    if (num_devices <= 0 || world == num_devices) return;
    const int64_t ranks_per_replica = static_cast<int64_t>(replica);
    if (num_devices % ranks_per_replica != 0) {
      Add("devices % (tp * cp * pp)", ranks_per_replica, num_devices, "devices",
          Concat(num_devices, " devices do not divide into model replicas of ", ranks_per_replica,
                 " (tp ", parallel_.tensor_parallel_size, " x cp ", parallel_.context_parallel_size,
                 " x pp ", parallel_.pipeline_parallel_size, ")"));
      return;
    }
    Add("world size", static_cast<int64_t>(world), num_devices, "devices",
        Concat("tp ", parallel_.tensor_parallel_size, " x cp ", parallel_.context_parallel_size,
               " x pp ", parallel_.pipeline_parallel_size, " x dp ", parallel_.data_parallel_size,
               " make ", static_cast<int64_t>(world), " ranks, but there are ", num_devices,
               " devices"));
  }

  void CheckTensorParallel() {
    const int tp = parallel_.tensor_parallel_size;
    const int heads = model_.num_attention_heads;
    const int kv_heads = model_.num_key_value_heads;
    if (heads % kv_heads != 0) {
      Add("heads % kv heads", kv_heads, heads, "heads",
          Concat(heads, " attention heads do not divide into ", kv_heads, " key/value heads"));
    }
    if (heads % tp != 0) {
      Add("heads % tp", tp, heads, "heads",
          Concat(heads, " attention heads do not divide by tensor-parallel size ", tp));
    }
    if (kv_heads % tp != 0 && tp % kv_heads != 0) {
      Add("kv heads % tp", tp, kv_heads, "heads",
          Concat("of ", kv_heads, " key/value heads and tensor-parallel size ", tp,
                 " neither divides the other"));
    }
    const bool has_dense_mlp = !model_.moe || model_.moe->num_leading_dense_layers > 0;
    if (has_dense_mlp) CheckMlpWidth("MLP width ", model_.ffn_hidden_size);
    if (model_.moe) {
      CheckMlpWidth("shared expert's width ", model_.moe->shared_expert_ffn_hidden_size);
    }
    if (model_.position == PositionKind::kRope && model_.head_dim % 2 != 0) {
      Add("head dim % 2", 2, model_.head_dim, "",
          Concat("head_dim ", model_.head_dim, " is odd, but rotary positions turn pairs"));
    }
  }

  void CheckMlpWidth(const char* what, int64_t width) {
    const int tp = parallel_.tensor_parallel_size;
    if (width % tp == 0) return;
    Add("ffn % tp", tp, width, "columns",
        Concat(what, width, " does not divide by tensor-parallel size ", tp));
  }

  void CheckSequence() {
    const int64_t sequence = training_.sequence_length;
    const int64_t tp = parallel_.tensor_parallel_size;
    const int64_t cp = parallel_.context_parallel_size;
    if (model_.position == PositionKind::kLearned && sequence > model_.max_sequence_length) {
      Add("sequence <= positions", sequence, model_.max_sequence_length, "tokens",
          Concat("sequence length ", sequence, " exceeds the ", model_.max_sequence_length,
                 " learned positions of the model"));
    }
    // Under a causal mask a rank takes an early and a late chunk, so that all have the same work.
    // Where heads are swapped for tokens every rank sees whole sequences.
    const bool is_balanced = parallel_.context_kind != ContextKind::kAllToAll;
    const int64_t chunks = cp == 1 ? 1 : is_balanced ? 2 * cp : cp;
    if (sequence % chunks != 0) {
      Add(is_balanced ? "sequence % (2 * cp)" : "sequence % cp", chunks, sequence, "tokens",
          Concat("sequence length ", sequence, " does not divide into ", is_balanced ? "2 x " : "",
                 cp, " chunks for context-parallel size ", cp));
    } else if (parallel_.sequence_parallel && tp > 1 && sequence / cp % tp != 0) {
      Add("sequence % tp", tp, sequence / cp, "tokens",
          Concat("with sequence parallelism, the ", sequence / cp,
                 " tokens of a sequence on one rank do not divide by tensor-parallel size ", tp));
    }
    if (cp == 1) return;
    if (parallel_.context_kind == ContextKind::kAllToAll) CheckSwappedHeads();
    if (parallel_.context_kind == ContextKind::kRing) CheckRing();
  }

  void CheckRing() {
    if (parallel_.attention != AttentionKind::kFlash) {
      Add("ring needs flash attention", 1, 0, "",
          "a context-parallel ring merges partial outputs by their log-sum-exp, which unfused "
          "attention does not keep");
    }
    if (model_.sliding_window) {
      Add("ring needs full attention", 0, model_.sliding_window->size, "tokens",
          "a context-parallel ring passes all keys round, but the model attends to a window: "
          "gather (all-gather) or swap heads (all-to-all)");
    }
  }

  // All-to-all context parallelism gives each rank whole heads of whole sequences.
  void CheckSwappedHeads() {
    const int64_t cp = parallel_.context_parallel_size;
    const int64_t ranks = cp * parallel_.tensor_parallel_size;
    if (model_.num_attention_heads % ranks != 0) {
      Add("heads % (tp * cp)", ranks, model_.num_attention_heads, "heads",
          Concat(model_.num_attention_heads, " attention heads do not divide by tp ",
                 parallel_.tensor_parallel_size, " x cp ", cp,
                 ", which all-to-all context parallelism needs"));
    }
    const int kv_heads_here =
        std::max(1, model_.num_key_value_heads / parallel_.tensor_parallel_size);
    if (!model_.mla && kv_heads_here % cp != 0) {
      Add("kv heads % cp", cp, kv_heads_here, "heads",
          Concat("the ", kv_heads_here, " key/value heads of a tensor rank do not divide by ",
                 "context-parallel size ", cp, ", which all-to-all context parallelism needs"));
    }
  }

  void CheckBatch() {
    const int64_t global = training_.global_batch_size;
    const int64_t per_round = parallel_.micro_batch_size * parallel_.data_parallel_size;
    if (global % per_round != 0) {
      Add("global batch % (micro batch * dp)", per_round, global, "samples",
          Concat("global batch size ", global, " does not divide by micro-batch size ",
                 parallel_.micro_batch_size, " x data-parallel size ", parallel_.data_parallel_size,
                 " = ", per_round));
    }
  }

  void CheckExperts() {
    const int ep = parallel_.expert_parallel_size;
    if (model_.moe && model_.moe->experts_per_token > model_.moe->num_experts) {
      Add("experts per token <= experts", model_.moe->experts_per_token, model_.moe->num_experts,
          "experts",
          Concat(model_.moe->experts_per_token, " experts per token exceed the ",
                 model_.moe->num_experts, " experts"));
    }
    if (!model_.moe) {
      if (ep == 1) return;
      Add("ep needs experts", ep, 0, "experts",
          Concat("expert-parallel size ", ep, " needs experts, but the model has 0"));
      return;
    }
    const int tp = parallel_.tensor_parallel_size;
    if (tp > 1 && !parallel_.sequence_parallel) {
      // Each tensor rank would send the same tokens, as Megatron-LM refuses to train.
      Add("experts with tp need sequence parallelism", tp, 1, "ranks",
          Concat("with tensor-parallel size ", tp,
                 " experts need sequence parallelism, so that each rank routes its own tokens"));
    }
    const int etp = ExpertTensorSize(parallel_);
    if (model_.moe->expert_ffn_hidden_size % etp != 0) {
      Add("expert ffn % etp", etp, model_.moe->expert_ffn_hidden_size, "columns",
          Concat("expert width ", model_.moe->expert_ffn_hidden_size,
                 " does not divide by expert-tensor-parallel size ", etp));
    }
    if (model_.moe->num_experts % ep != 0) {
      Add("experts % ep", ep, model_.moe->num_experts, "experts",
          Concat(model_.moe->num_experts, " experts do not divide by expert-parallel size ", ep));
    }
    const int64_t stage_ranks =
        static_cast<int64_t>(parallel_.tensor_parallel_size) * GradientGroupSize(parallel_);
    const int64_t expert_ranks = static_cast<int64_t>(etp) * ep;
    if (stage_ranks % expert_ranks != 0) {
      Add("tp * cp * dp % (etp * ep)", expert_ranks, stage_ranks, "ranks",
          Concat("the ", stage_ranks, " ranks of a pipeline stage (tp ",
                 parallel_.tensor_parallel_size, " x cp ", parallel_.context_parallel_size,
                 " x dp ", parallel_.data_parallel_size, ") do not divide by etp ", etp, " x ep ",
                 ep));
    }
  }

  void CheckSharding() {
    using base::DType;
    const DType reduced = parallel_.gradient_reduce_type;
    if (reduced != DType::kFloat32 && reduced != DType::kBFloat16 && reduced != DType::kFloat16) {
      Add("gradient reduce type", base::SizeBytes(DType::kFloat32), base::SizeBytes(reduced),
          "bytes", "gradients are reduced as fp32, bf16 or fp16");
    }
    const int size = parallel_.zero_group_size;
    const int group = GradientGroupSize(parallel_);
    if (size == 0 || parallel_.zero_stage == 0) return;
    if (group % size != 0) {
      Add("dp * cp % zero group", size, group, "ranks",
          Concat("the ", group,
                 " ranks that hold the same parameters do not divide into groups of ", size,
                 " that shard them"));
      return;
    }
    const int expert_group = ExpertDataSize(parallel_);
    const int num_replicas = group / size;
    if (model_.moe && expert_group % num_replicas != 0) {
      Add("expert dp % zero replicas", num_replicas, expert_group, "ranks",
          Concat("the ", expert_group, " ranks that hold the same experts do not divide into ",
                 num_replicas, " replicas of what ZeRO shards"));
    }
  }

  const ModelSpec& model_;
  const TrainingSpec& training_;
  const ParallelSpec& parallel_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> FindViolations(const ModelSpec& model, const TrainingSpec& training,
                                      const ParallelSpec& parallel, int num_devices) {
  return Rules(model, training, parallel).Find(num_devices);
}

}  // namespace tessera::spec
