#include "planner/validation/measured_job.h"

#include <algorithm>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "planner/validation/measured_cluster.h"
#include "planner/validation/measured_model.h"
#include "planner/validation/text_search.h"

namespace tessera::planner {
namespace {

using base::Concat;
using spec::ParallelSpec;

// "bf16", "mxfp8", "fp8-rowwise", "nvfp4"; nothing for a precision that no spec knows.
std::optional<spec::Precision> PrecisionOf(const std::string& text) {
  if (Contains(text, "fp8")) return spec::Precision::kFp8;
  if (Contains(text, "fp4")) return spec::Precision::kFp4;
  if (Contains(text, "bf16")) return spec::Precision::kBf16;
  if (Contains(text, "fp16")) return spec::Precision::kFp16;
  if (Contains(text, "fp32")) return spec::Precision::kFp32;
  return std::nullopt;
}

// Of a row with one chunk a stage.
spec::ScheduleKind ScheduleOf(const MeasuredLayout& row) {
  if (Contains(row.schedule, "gpipe")) return spec::ScheduleKind::kGPipe;
  if (Contains(row.schedule, "zb-h1")) return spec::ScheduleKind::kZeroBubbleH1;
  return spec::ScheduleKind::kOneForwardOneBackward;
}

// The type that gradients are summed in, where the row says it: "fp32 (main grads) / fp16 comm".
std::optional<base::DType> GradientReduceType(const std::string& text) {
  const std::size_t slash = text.find('/');
  const std::string last = slash == std::string::npos ? text : text.substr(slash);
  if (Contains(last, "fp32")) return base::DType::kFloat32;
  if (Contains(last, "bf16")) return base::DType::kBFloat16;
  if (Contains(last, "fp16")) return base::DType::kFloat16;
  return std::nullopt;
}

void FillLayout(const Measurement& measurement, ParallelSpec& parallel) {
  const MeasuredLayout& row = measurement.layout;
  parallel.tensor_parallel_size = static_cast<int>(row.tensor_parallel_size);
  parallel.pipeline_parallel_size = static_cast<int>(row.pipeline_parallel_size);
  parallel.context_parallel_size = static_cast<int>(row.context_parallel_size);
  parallel.expert_parallel_size = static_cast<int>(row.expert_parallel_size);
  // Megatron's recipes for mixtures of experts leave an expert's matrices whole.
  parallel.expert_tensor_parallel_size =
      static_cast<int>(row.expert_tensor_parallel_size.value_or(1));
  const int64_t ranks_per_replica =
      row.tensor_parallel_size * row.pipeline_parallel_size * row.context_parallel_size;
  parallel.data_parallel_size = static_cast<int>(row.data_parallel_size.value_or(
      std::max<int64_t>(1, measurement.hardware.num_devices / ranks_per_replica)));
  parallel.schedule = ScheduleOf(row);
  parallel.sequence_parallel =
      row.sequence_parallel.value_or(false) && row.tensor_parallel_size > 1;
  if (row.flash_attention) {
    // The kernel that ran goes before what the program was asked for.
    const bool is_fused = *row.flash_attention && !Contains(row.attention_kernel, "unfused");
    parallel.attention = is_fused ? spec::AttentionKind::kFlash : spec::AttentionKind::kUnfused;
  }
  if (const auto type = GradientReduceType(row.grad_dtype)) parallel.gradient_reduce_type = *type;
  if (row.context_kind == "a2a") parallel.context_kind = spec::ContextKind::kAllToAll;
  parallel.zero_group_size = static_cast<int>(row.zero_group_size.value_or(0));
}

std::string WhyNotAJob(const Measurement& measurement, const RowMeaning& meaning) {
  if (meaning.cluster.empty()) {
    return Concat("no hardware file describes ", measurement.hardware.gpu);
  }
  if (!measurement.layout.global_batch_size) return "its global batch size is not known";
  if (!PrecisionOf(measurement.layout.precision)) {
    return Concat("precision ", measurement.layout.precision, " is not priced");
  }
  if (measurement.task == "lora") return "training with frozen weights (LoRA) is not priced";
  return "";
}

// The row with what is known better, or besides.
Measurement AsItRan(Measurement row, const RowMeaning& meaning) {
  if (!meaning.recompute.empty()) row.layout.recompute = meaning.recompute;
  if (!row.layout.zero_stage && meaning.runtime.max_zero_stage == 0) row.layout.zero_stage = 0;
  return row;
}

}  // namespace

MeasuredJob JobMaker::Make(const Measurement& row_as_stated) {
  const RowMeaning meaning = rules_.MeaningOf(row_as_stated);
  const Measurement measurement = AsItRan(row_as_stated, meaning);
  MeasuredJob measured;
  measured.skipped = WhyNotAJob(measurement, meaning);
  if (!measured.skipped.empty()) return measured;

  const MeasuredLayout& row = measurement.layout;
  cost_model::Job& job = measured.job;
  job.model = ModelOf(measurement);
  if (meaning.drops_vocab_remainder) {
    job.model.vocab_size -= job.model.vocab_size % row.tensor_parallel_size;
  }
  auto cluster = clusters_.find(meaning.cluster);
  if (cluster == clusters_.end()) {
    cluster = clusters_.emplace(meaning.cluster, spec::LoadCluster(meaning.cluster)).first;
  }
  job.cluster = cluster->second;
  FitCluster(measurement.hardware, job.cluster);
  job.training.global_batch_size = *row.global_batch_size;
  job.training.sequence_length = measurement.model.sequence_length;
  job.training.precision = *PrecisionOf(row.precision);
  if (job.cluster.device.peak_flops_per_s.count(spec::TypesOf(job.training.precision).matmul) ==
      0) {
    measured.skipped = Concat(job.cluster.device.name, " has no peak for ", row.precision);
    return measured;
  }
  job.num_devices = static_cast<int>(measurement.hardware.num_devices);
  job.runtime = meaning.runtime;

  ParallelSpec parallel = meaning.layout;
  FillLayout(measurement, parallel);
  measured.choices = ChoicesOf(measurement, job.model, parallel);
  return measured;
}

}  // namespace tessera::planner
