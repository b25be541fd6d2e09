#include "planner/layout_text.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/spec/device_peak.h"
#include "cost_model/spec/parameter_list.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

// "2", "2 to 3".
std::string RangeText(const std::vector<int>& counts) {
  const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
  return *fewest == *most ? Concat(*most) : Concat(*fewest, " to ", *most);
}

std::string RecomputeText(const spec::ParallelSpec& parallel) {
  if (!parallel.recomputed_layers_per_virtual_stage.empty()) {
    return Concat("full recomputation of ", RangeText(parallel.recomputed_layers_per_virtual_stage),
                  " layers of a stage");
  }
  switch (parallel.recompute) {
    case spec::Recompute::kNone:
      return "no recomputation";
    case spec::Recompute::kSelective:
      return "selective recomputation";
    case spec::Recompute::kFull:
      return "full recomputation";
  }
  return "";
}

std::string TimeTable(const spec::StepReport& report) {
  constexpr double kLeastShare = 1e-9;  // less is rounding
  TextTable table({"time", "seconds", "share"});
  for (const TimeTerm& term : TermsOf(report.time)) {
    if (term.seconds < kLeastShare * report.step_time_s) continue;
    table.AddRow({term.name, FormatFixed(term.seconds, 4),
                  FormatPercent(term.seconds / report.step_time_s)});
  }
  table.AddRow({"step", FormatFixed(report.step_time_s, 4), FormatPercent(1)});
  return table.ToString(2);
}

std::string MemoryTable(const spec::StepReport& report) {
  TextTable table(
      {"stage", "weights", "gradients", "optimizer", "activations", "buffers", "total"});
  const auto row = [](const std::string& name, const spec::StageMemory& memory) {
    const auto text = [](int64_t bytes) { return FormatBytes(static_cast<double>(bytes)); };
    return std::vector<std::string>{name,
                                    text(memory.weights_bytes),
                                    text(memory.gradients_bytes),
                                    text(memory.optimizer_bytes),
                                    text(memory.activations_bytes),
                                    text(memory.buffers_bytes),
                                    text(memory.Total())};
  };
  const std::vector<spec::StageMemory>& stages = report.stages;
  constexpr size_t kMaxRows = 16;  // longer pipelines: ends and the fullest tell enough
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool is_shown = stages.size() <= kMaxRows || i < 4 || i + 4 >= stages.size() ||
                          stages[i].Total() == report.peak_bytes;
    if (is_shown) table.AddRow(row(std::to_string(i), stages[i]));
  }
  return table.ToString(2);
}

std::string RatesText(const spec::StepReport& report, const Request& request) {
  const cost_model::Job& job = request.job;
  const double peak =
      spec::PeakFlopsPerDevice(job.cluster, job.training.precision, job.num_devices);
  const bool is_causal = job.convention == spec::FlopsConvention::kCausal;
  const double device_seconds = report.step_time_s * job.num_devices;
  return Concat(
      "  tokens/s         ", FormatCount(static_cast<int64_t>(report.tokens_per_s)), " (",
      FormatFixed(report.tokens_per_s_per_device, 1), " per device)\n", "  MFU              ",
      FormatPercent(report.mfu), " = ", FormatSi(report.model_flops), "FLOP / (",
      FormatSeconds(report.step_time_s), " x ", job.num_devices, " x ", FormatSi(peak),
      "FLOP/s dense peak): ", FormatSi(report.model_flops / device_seconds), "FLOP/s per device\n",
      "                   model FLOPs = 3 x forward products, no recomputation, attention ",
      is_causal ? "halved (causal)" : "in full", "\n", "  HFU              ",
      FormatPercent(report.hfu),
      " with recomputation: ", FormatSi(report.hardware_flops / device_seconds),
      "FLOP/s per device\n");
}

// The schedule's bubble against the work of the stage that has the most.
std::string BubbleText(const RankedLayout& layout, const Request& request) {
  const spec::ParallelSpec& parallel = layout.parallel;
  if (parallel.pipeline_parallel_size == 1) return "";
  const spec::TimeBreakdown& time = layout.report.time;
  const double busy_s = time.Compute() + time.tp_comm_s;
  return Concat("  pipeline bubble  ", FormatPercent(time.bubble_s / (busy_s + time.bubble_s)),
                " of the pipeline's time: ", spec::ToString(parallel.schedule), ", ",
                spec::NumMicrobatches(request.job.training, parallel), " micro-batches over ",
                parallel.pipeline_parallel_size, " stages",
                parallel.virtual_pipeline_size > 1
                    ? Concat(" of ", parallel.virtual_pipeline_size, " chunks")
                    : "",
                "\n");
}

// "tp 8, pp 4 (vpp 3), dp 2": the mesh alone.
std::string MeshText(const spec::ParallelSpec& parallel) {
  std::string text =
      Concat("tp ", parallel.tensor_parallel_size, ", pp ", parallel.pipeline_parallel_size);
  if (parallel.virtual_pipeline_size > 1) {
    text += Concat(" (vpp ", parallel.virtual_pipeline_size, ")");
  }
  text += Concat(", dp ", parallel.data_parallel_size);
  if (parallel.context_parallel_size > 1) text += Concat(", cp ", parallel.context_parallel_size);
  if (parallel.expert_parallel_size > 1) text += Concat(", ep ", parallel.expert_parallel_size);
  if (parallel.expert_tensor_parallel_size > 0) {
    text += Concat(", etp ", parallel.expert_tensor_parallel_size);
  }
  return text;
}

}  // namespace

std::string LayoutText(const spec::ParallelSpec& parallel) {
  std::string text = Concat(MeshText(parallel), ", micro-batch ", parallel.micro_batch_size);
  if (parallel.sequence_parallel) text += ", sequence parallel";
  text += Concat(", ", RecomputeText(parallel));
  if (parallel.data_parallel_size > 1) text += Concat(", zero ", parallel.zero_stage);
  const bool is_usual = parallel.schedule == spec::ScheduleKind::kOneForwardOneBackward ||
                        parallel.schedule == spec::ScheduleKind::kInterleaved;
  if (!is_usual) text += Concat(", ", spec::ToString(parallel.schedule));
  if (parallel.microbatch_group_size > 0) {
    text += Concat(", groups of ", parallel.microbatch_group_size, " micro-batches");
  }
  const std::vector<int>& layers = parallel.layers_per_virtual_stage;
  if (layers.size() > 1) {
    text += Concat(", ", FormatPlural(layers.front(), "layer"), " on the first and ", layers.back(),
                   " on the last stage");
  }
  if (parallel.offload_optimizer) text += ", optimizer on the host";
  if (parallel.overlap_param_gather) text += ", gathering overlapped";
  if (parallel.overlap_tp_comm) text += ", tensor-parallel communication overlapped";
  return text;
}

std::string RequestText(const Request& request) {
  const cost_model::Job& job = request.job;
  const auto num_parameters = static_cast<double>(spec::NumParameters(job.model));
  constexpr double kBillion = 1e9;  // told as "B", as model names do
  const std::string size = num_parameters >= kBillion
                               ? Concat(FormatFixed(num_parameters / kBillion, 1), " B")
                               : FormatSi(num_parameters);
  return Concat(job.model.name, " (", size, " parameters) on ",
                FormatPlural(job.num_devices, "device"), " of ", job.cluster.name,
                ", global batch ", FormatCount(job.training.global_batch_size), " x ",
                FormatCount(job.training.sequence_length), " tokens, ",
                spec::ToString(job.training.precision));
}

std::vector<TimeTerm> TermsOf(const spec::TimeBreakdown& time) {
  return {{"forward compute", time.forward_s},
          {"backward compute", time.backward_s},
          {"recomputation", time.recompute_s},
          {"tensor-parallel communication", time.tp_comm_s},
          {"pipeline transfers", time.pp_comm_s},
          {"data-parallel communication", time.dp_comm_s},
          {"context-parallel communication", time.cp_comm_s},
          {"expert-parallel communication", time.ep_comm_s},
          {"pipeline bubble", time.bubble_s},
          {"optimizer", time.optimizer_s},
          {"gradient norm and clearing", time.other_s},
          {"waiting for the slowest device", time.straggler_s}};
}

std::string BreakdownText(const RankedLayout& layout, const Request& request) {
  const spec::StepReport& report = layout.report;
  return Concat("  step time        ", FormatSeconds(report.step_time_s), "\n",
                RatesText(report, request), BubbleText(layout, request), "\n", TimeTable(report),
                "\n", MemoryTable(report));
}

}  // namespace tessera::planner
