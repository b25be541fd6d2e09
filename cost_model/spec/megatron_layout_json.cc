#include "cost_model/spec/megatron_layout_json.h"

#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"
#include "cost_model/spec/megatron_pipeline_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using Show = MegatronFields::Show;

void VisitTensorParallel(MegatronFields& fields, ParallelSpec& parallel) {
  fields.Integer("tensor_parallel_size", parallel.tensor_parallel_size,
                 {"tensor_model_parallel_size", "tensor_parallel_size"}, 1, kSizeRange,
                 Show::kAlways);
  // Megatron-LM turns both off at size 1.
  const bool is_cut = parallel.tensor_parallel_size > 1;
  if (!fields.is_reading() && !is_cut) return;
  fields.Flag("sequence_parallel", parallel.sequence_parallel, {"sequence_parallel"});
  if (!fields.is_reading() && parallel.overlap_tp_comm && !parallel.sequence_parallel) {
    fields.Warn(
        "Megatron-LM overlaps tensor-parallel communication under sequence parallelism "
        "only: --tp-comm-overlap is left out.");
    return;
  }
  fields.Flag("overlap_tp_comm", parallel.overlap_tp_comm, {"tp_comm_overlap"});
}

void VisitContextParallel(MegatronFields& fields, ParallelSpec& parallel) {
  fields.Integer("context_parallel_size", parallel.context_parallel_size, {"context_parallel_size"},
                 1);
  if (!fields.is_reading() && parallel.context_parallel_size == 1) return;
  fields.Choice<ContextKind>("context_kind", parallel.context_kind, {"cp_comm_type"},
                             {{"p2p", ContextKind::kRing},
                              {"allgather", ContextKind::kAllGather},
                              {"a2a", ContextKind::kAllToAll}},
                             ContextKind::kRing);
}

void VisitExpertParallel(MegatronFields& fields, const ModelSpec& model,
                         const TrainingSpec& training, ParallelSpec& parallel) {
  if (!fields.is_reading() && !model.moe) return;
  fields.Integer("expert_parallel_size", parallel.expert_parallel_size,
                 {"expert_model_parallel_size", "expert_parallel_size"}, 1);
  fields.Integer("expert_tensor_parallel_size", parallel.expert_tensor_parallel_size,
                 {"expert_tensor_parallel_size"}, 0);
  if (fields.is_reading()) return;
  if (parallel.expert_parallel_size > 1 && training.precision == Precision::kFp16) {
    fields.Refuse("precision", "Megatron-LM has no expert parallelism in fp16");
  }
  const int tp = parallel.tensor_parallel_size;
  const int expert_tp = parallel.expert_tensor_parallel_size;
  if ((expert_tp == 0 ? tp : expert_tp) > 1 && !parallel.sequence_parallel) {
    fields.Refuse("sequence parallelism",
                  "Megatron-LM splits experts over tensor-parallel ranks under sequence "
                  "parallelism only");
  }
}

// Without "flash" a backend is chosen at run time, which latent attention needs: its heads of
// queries and keys are wider than those of values.
void VisitAttention(MegatronFields& fields, const ModelSpec& model, ParallelSpec& parallel) {
  if (!fields.is_reading()) {
    const char* flash = model.mla ? "auto" : "flash";
    fields.Write("attention_backend",
                 parallel.attention == AttentionKind::kFlash ? flash : "unfused");
    return;
  }
  MegatronArguments& arguments = fields.arguments();
  std::optional<AttentionKind> kind;
  if (const auto flash = arguments.Flag({"use_flash_attn"})) {
    kind = *flash ? AttentionKind::kFlash : AttentionKind::kUnfused;
  }
  const std::optional<std::size_t> backend =
      arguments.Choice({"attention_backend"}, {"flash", "fused", "auto", "unfused", "local"});
  constexpr std::size_t kFirstUnfused = 3;
  if (backend) {
    kind = *backend < kFirstUnfused ? AttentionKind::kFlash : AttentionKind::kUnfused;
  }
  fields.Set("attention", parallel.attention, kind, std::optional(AttentionKind::kFlash));
}

// The order of the axes longer than one, without the experts', whose ranks are among the others.
std::string OrderOf(const std::string& rank_order, const ParallelSpec& parallel) {
  const std::pair<const char*, int> kSizes[] = {{"tp", parallel.tensor_parallel_size},
                                                {"cp", parallel.context_parallel_size},
                                                {"dp", parallel.data_parallel_size},
                                                {"pp", parallel.pipeline_parallel_size}};
  std::string order;
  for (std::size_t place = 0; place < rank_order.size(); place += 3) {
    const std::string axis = rank_order.substr(place, 2);
    for (const auto& [name, size] : kSizes) {
      if (axis == name && size > 1) order += axis;
    }
  }
  return order;
}

void VisitRankOrder(MegatronFields& fields, ParallelSpec& parallel) {
  const std::string standard = ParallelSpec{}.rank_order;
  const std::string data_last = "tp-cp-ep-pp-dp";
  if (fields.is_reading()) {
    std::optional<std::string> order;
    if (const auto mapped = fields.arguments().Flag({"use_tp_pp_dp_mapping"})) {
      order = *mapped ? data_last : standard;
    }
    fields.Set("rank_order", parallel.rank_order, order, std::optional(standard));
    return;
  }
  const std::string order = OrderOf(parallel.rank_order, parallel);
  if (order == OrderOf(standard, parallel)) return;
  if (order == OrderOf(data_last, parallel)) return fields.Write("use_tp_pp_dp_mapping");
  fields.Refuse("rank order", Concat("Megatron-LM orders ranks by ", standard, " or ", data_last,
                                     ", not ", parallel.rank_order));
}

}  // namespace

void VisitMegatronLayout(MegatronFields& fields, const ModelSpec& model,
                         const TrainingSpec& training, ParallelSpec& parallel) {
  fields.Section("Layout");
  VisitTensorParallel(fields, parallel);
  VisitMegatronPipeline(fields, model, parallel);
  if (fields.is_reading()) {  // Megatron-LM derives it from the number of processes
    fields.Integer("data_parallel_size", parallel.data_parallel_size, {"data_parallel_size"},
                   std::nullopt);
    fields.arguments().Skip({"no_scatter_gather_tensors_in_pipeline"});
  }
  VisitContextParallel(fields, parallel);
  VisitExpertParallel(fields, model, training, parallel);
  fields.Integer("micro_batch_size", parallel.micro_batch_size, {"micro_batch_size"}, std::nullopt);
  VisitMegatronRecompute(fields, model, parallel);
  VisitAttention(fields, model, parallel);
  VisitRankOrder(fields, parallel);
  fields.Integer("vocab_size_multiple", parallel.vocab_size_multiple,
                 {"make_vocab_size_divisible_by"}, 128, kSizeRange, Show::kAlways);
  fields.Section("Data-parallel sharding and communication");
  VisitMegatronSharding(fields, parallel);
  if (!fields.is_reading() && parallel.scatter_gather_transfers) {
    fields.Warn(
        "Megatron-Core sends whole activations between stages without sequence "
        "parallelism; the plan prices each rank's share of them.");
  }
}

}  // namespace tessera::spec
