#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"
#include "cost_model/spec/megatron_layout_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using Show = MegatronFields::Show;

// Stages 2 and 3 are Megatron-FSDP's; 0 and 1 are with and without the distributed optimizer.
std::optional<int> ReadZeroStage(MegatronArguments& arguments) {
  std::optional<int> stage;
  if (const auto sharded = arguments.Flag({"use_distributed_optimizer"})) stage = *sharded ? 1 : 0;
  const std::optional<std::size_t> strategy =
      arguments.Choice({"data_parallel_sharding_strategy"},
                       {"no_shard", "optim", "optim_grads", "optim_grads_params"});
  if (arguments.FlagOr({"use_megatron_fsdp", "use_custom_fsdp"}, false)) {
    stage = static_cast<int>(strategy.value_or(0));
  }
  const bool gathered = arguments.FlagOr({"torch_fsdp2_no_reshard_after_forward"}, false);
  if (arguments.FlagOr({"use_torch_fsdp2"}, false)) stage = gathered ? 2 : 3;
  arguments.Skip({"init_model_with_meta_device", "fsdp_double_buffer"});
  return stage;
}

// Megatron-LM counts the groups that shard, we the ranks of one.
void ReadInstances(MegatronFields& fields, ParallelSpec& parallel) {
  MegatronArguments& arguments = fields.arguments();
  const MegatronFields::Names names = {"num_distributed_optimizer_instances"};
  const std::optional<int64_t> instances = arguments.Integer(names);
  if (!instances) {
    fields.Set("zero_group_size", parallel.zero_group_size, std::optional<int>(), std::optional(0));
    return;
  }
  const int64_t group = int64_t{parallel.data_parallel_size} * parallel.context_parallel_size;
  if (*instances > 1 && !arguments.Given({"data_parallel_size"})) {
    arguments.Fail(names, Concat(*instances), "1, or \"data_parallel_size\" beside it");
  }
  if (*instances > 1 && group % *instances != 0) {
    arguments.Fail(names, Concat(*instances),
                   Concat("a divisor of the ", group, " ranks of dp x cp"));
  }
  fields.Set("zero_group_size", parallel.zero_group_size,
             std::optional(*instances > 1 ? group / *instances : 0));
}

void WriteInstances(MegatronFields& fields, const ParallelSpec& parallel) {
  const int64_t group = int64_t{parallel.data_parallel_size} * parallel.context_parallel_size;
  const int size = parallel.zero_group_size;
  if (parallel.zero_stage == 0 || size == 0 || size == group) return;
  if (group % size != 0) {
    fields.Refuse("zero group size",
                  Concat("groups of ", size, " do not divide the ", group, " ranks of dp x cp"));
    return;
  }
  fields.Write("num_distributed_optimizer_instances", group / size);
}

void WriteZeroStage(MegatronFields& fields, const ParallelSpec& parallel) {
  if (parallel.zero_stage > 0) fields.Write("use_distributed_optimizer");
  if (parallel.zero_stage > 1) {
    fields.Write("use_megatron_fsdp");
    fields.Write("data_parallel_sharding_strategy",
                 parallel.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
    fields.Write("ckpt_format", "fsdp_dtensor");
  }
  WriteInstances(fields, parallel);
}

void VisitOffload(MegatronFields& fields, ParallelSpec& parallel) {
  fields.Flag("offload_optimizer", parallel.offload_optimizer, {"optimizer_cpu_offload"});
  if (fields.is_reading()) {
    fields.arguments().Only("optimizer_offload_fraction", 1.0, "all of the optimizer's state");
    fields.arguments().Skip({"use_precision_aware_optimizer", "overlap_cpu_optimizer_d2h_h2d",
                             "use_torch_optimizer_for_cpu_offload"});
    return;
  }
  if (!parallel.offload_optimizer) return;
  fields.Write("use_precision_aware_optimizer");  // demanded with the offload
  if (parallel.zero_stage == 0) {
    fields.Refuse("optimizer offload",
                  "Megatron-LM keeps the optimizer's state on the host with the distributed "
                  "optimizer (ZeRO 1) only");
  }
}

void VisitGradientType(MegatronFields& fields, ParallelSpec& parallel) {
  const bool is_full = parallel.gradient_reduce_type == base::DType::kFloat32;
  if (!fields.is_reading()) {
    fields.Write(is_full ? "accumulate_allreduce_grads_in_fp32" : "grad_reduce_in_bf16");
    return;
  }
  MegatronArguments& arguments = fields.arguments();
  std::optional<base::DType> type;
  if (arguments.FlagOr({"grad_reduce_in_bf16"}, false)) type = base::DType::kBFloat16;
  if (arguments.FlagOr({"accumulate_allreduce_grads_in_fp32"}, false)) {
    type = base::DType::kFloat32;
  }
  fields.Set("gradient_reduce_type", parallel.gradient_reduce_type, type,
             std::optional(base::DType::kFloat32));
}

}  // namespace

void VisitMegatronSharding(MegatronFields& fields, ParallelSpec& parallel) {
  if (fields.is_reading()) {
    fields.Set("zero_stage", parallel.zero_stage, ReadZeroStage(fields.arguments()),
               std::optional(0));
    ReadInstances(fields, parallel);
  } else {
    WriteZeroStage(fields, parallel);
  }
  fields.Flag("overlap_grad_reduce", parallel.overlap_grad_reduce, {"overlap_grad_reduce"});
  if (!fields.is_reading() && parallel.overlap_param_gather &&
      (parallel.zero_stage == 0 || !parallel.overlap_grad_reduce)) {
    fields.Warn(
        "Megatron-LM overlaps the gathering of parameters with the distributed optimizer "
        "and --overlap-grad-reduce only: --overlap-param-gather is left out.");
  } else {
    fields.Flag("overlap_param_gather", parallel.overlap_param_gather, {"overlap_param_gather"});
  }
  fields.Integer("bucket_elements", parallel.bucket_elements, {"ddp_bucket_size"}, std::nullopt);
  VisitGradientType(fields, parallel);
  VisitOffload(fields, parallel);
}

}  // namespace tessera::spec
