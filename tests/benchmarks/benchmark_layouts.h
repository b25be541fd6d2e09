// The layouts that layout_benchmark compares: every way to spread one training over two cores.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cost_model/spec/plan.h"

namespace tessera::benchmarks {

struct Layout {
  std::string name;
  spec::Plan plan;
  bool is_reference = false;  // one rank of one or two threads, for its model
};

struct BenchmarkSize {
  int num_layers = 0;
  int64_t hidden_size = 0;
  int64_t global_batch_size = 0;
  int64_t sequence_length = 0;
};

// Llama's form. Micro-batches of one sequence throughout.
inline spec::Plan OneRankPlan(const BenchmarkSize& size) {
  constexpr int64_t kHeadDim = 32;
  spec::Plan plan;
  plan.model = {.name = "dense",
                .norm = spec::NormKind::kRmsNorm,
                .position = spec::PositionKind::kRope,
                .activation = spec::ActivationKind::kSwiGlu,
                .num_layers = size.num_layers,
                .hidden_size = size.hidden_size,
                .num_attention_heads = static_cast<int>(size.hidden_size / kHeadDim),
                .num_key_value_heads = static_cast<int>(size.hidden_size / kHeadDim),
                .head_dim = kHeadDim,
                .ffn_hidden_size = 3 * size.hidden_size,
                .vocab_size = 2048,
                .max_sequence_length = size.sequence_length};
  plan.training = {.global_batch_size = size.global_batch_size,
                   .sequence_length = size.sequence_length,
                   .precision = spec::Precision::kFp32};
  plan.parallel = {.zero_stage = 0, .overlap_grad_reduce = false};
  plan.cluster.shared_compute_units = 2;
  plan.threads_per_rank = 1;
  return plan;
}

class LayoutList {
 public:
  explicit LayoutList(spec::Plan one_rank) : one_rank_(std::move(one_rank)) {}

  // One rank; `change` is made to its layout.
  template <typename Change>
  void Add(const std::string& name, const Change& change, int num_threads = 1) {
    spec::Plan plan = one_rank_;
    change(plan.parallel);
    plan.num_devices = spec::WorldSize(plan.parallel);
    plan.threads_per_rank = num_threads;
    layouts_.push_back({one_rank_.model.moe ? "experts, " + name : name, plan});
  }
  void AddReferences() {
    Add("1 rank, 1 thread", [](spec::ParallelSpec&) {});
    layouts_.back().is_reference = true;
    Add(
        "1 rank, 2 threads", [](spec::ParallelSpec&) {}, /*num_threads=*/2);
    layouts_.back().is_reference = true;
  }
  std::vector<Layout> Take() { return std::move(layouts_); }

 private:
  spec::Plan one_rank_;
  std::vector<Layout> layouts_;
};

inline std::vector<Layout> DenseLayouts(const BenchmarkSize& size) {
  using spec::ParallelSpec;
  LayoutList list(OneRankPlan(size));
  list.AddReferences();
  for (const auto recompute : {spec::Recompute::kSelective, spec::Recompute::kFull}) {
    list.Add("1 rank, recompute " + std::string(ToString(recompute)),
             [=](ParallelSpec& p) { p.recompute = recompute; });
  }
  list.Add("tp 2", [](ParallelSpec& p) { p.tensor_parallel_size = 2; });
  list.Add("tp 2, sp", [](ParallelSpec& p) {
    p.tensor_parallel_size = 2;
    p.sequence_parallel = true;
  });
  for (const auto schedule :
       {spec::ScheduleKind::kGPipe, spec::ScheduleKind::kOneForwardOneBackward,
        spec::ScheduleKind::kInterleaved, spec::ScheduleKind::kZeroBubbleH1}) {
    list.Add("pp 2, " + std::string(ToString(schedule)), [=](ParallelSpec& p) {
      p.pipeline_parallel_size = 2;
      p.schedule = schedule;
      p.virtual_pipeline_size = schedule == spec::ScheduleKind::kInterleaved ? 2 : 1;
    });
  }
  for (const int stage : {0, 1, 2, 3}) {
    list.Add("dp 2, zero " + std::to_string(stage), [=](ParallelSpec& p) {
      p.data_parallel_size = 2;
      p.zero_stage = stage;
    });
  }
  for (const auto kind :
       {spec::ContextKind::kRing, spec::ContextKind::kAllGather, spec::ContextKind::kAllToAll}) {
    list.Add("cp 2, " + std::string(ToString(kind)), [=](ParallelSpec& p) {
      p.context_parallel_size = 2;
      p.context_kind = kind;
    });
  }
  return list.Take();
}

// Eight experts of which each token visits two.
inline std::vector<Layout> ExpertLayouts(const BenchmarkSize& size) {
  using spec::ParallelSpec;
  spec::Plan plan = OneRankPlan(size);
  plan.model.name = "experts";
  plan.model.moe = spec::MoeSpec{
      .num_experts = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 3 * size.hidden_size / 2};
  LayoutList list(plan);
  list.AddReferences();
  list.Add("tp 2, sp", [](ParallelSpec& p) {
    p.tensor_parallel_size = 2;
    p.sequence_parallel = true;
  });
  list.Add("dp 2", [](ParallelSpec& p) { p.data_parallel_size = 2; });
  list.Add("dp 2, ep 2", [](ParallelSpec& p) {
    p.data_parallel_size = 2;
    p.expert_parallel_size = 2;
  });
  return list.Take();
}

inline std::vector<Layout> TwoCoreLayouts(const BenchmarkSize& size) {
  std::vector<Layout> layouts = DenseLayouts(size);
  for (Layout& layout : ExpertLayouts(size)) layouts.push_back(std::move(layout));
  return layouts;
}

}  // namespace tessera::benchmarks
