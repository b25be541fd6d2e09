#include "planner/repairs.h"

#include <algorithm>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"
#include "planner/layout_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr int kMaxDeviceFactor = 64;

// The fastest layout of a changed request, if there is any.
void Try(const std::string& change, const Request& changed, std::vector<Repair>& repairs) {
  Request request = changed;
  cost_model::JobCosts costs(request.job);
  SearchResult found = SearchBest(request, costs);
  if (found.rows.empty()) return;
  Repair repair{change, request.job.num_devices, std::move(found.rows.front())};
  for (const Repair& earlier : repairs) {
    const bool is_known = earlier.num_devices == repair.num_devices &&
                          earlier.layout.parallel == repair.layout.parallel &&
                          earlier.layout.report.step_time_s == repair.layout.report.step_time_s;
    if (is_known) return;
  }
  repairs.push_back(std::move(repair));
}

void FreePipeline(PinnedAxes& pins) {
  pins.virtual_pipeline_size.reset();
  pins.schedule.reset();
}

// Chunks, stages and ranks of a mesh that may change: a given partition no longer holds.
void FreeMesh(Request& request) {
  request.pins.data_parallel_size.reset();
  request.fixed.layers_per_virtual_stage.clear();
}

void TryMemorySavers(const Request& request, std::vector<Repair>& repairs) {
  const PinnedAxes& pins = request.pins;
  const auto attempt = [&](const char* change, auto edit) {
    Request changed = request;
    edit(changed.pins);
    Try(change, changed, repairs);
  };
  if (pins.sequence_parallel == false && pins.tensor_parallel_size.value_or(2) > 1) {
    attempt("sequence parallelism", [](PinnedAxes& axes) { axes.sequence_parallel = true; });
  }
  if (pins.recompute == spec::Recompute::kNone &&
      request.fixed.attention == spec::AttentionKind::kUnfused) {
    attempt("selective recomputation",
            [](PinnedAxes& axes) { axes.recompute = spec::Recompute::kSelective; });
  }
  if (pins.recompute && pins.recompute != spec::Recompute::kFull) {
    attempt("full recomputation",
            [](PinnedAxes& axes) { axes.recompute = spec::Recompute::kFull; });
    // The search recomputes as few as it can.
    attempt("recomputation of as many layers as it takes", [](PinnedAxes& axes) {
      axes.recompute.reset();
      axes.num_recomputed_layers.reset();
    });
  }
  if (pins.zero_stage == 0) {
    attempt("ZeRO stage 1", [](PinnedAxes& axes) { axes.zero_stage = 1; });
  }
  for (int stage = std::max(2, pins.zero_stage.value_or(3) + 1); stage <= 3; ++stage) {
    attempt(stage == 2 ? "ZeRO stage 2" : "ZeRO stage 3",
            [stage](PinnedAxes& axes) { axes.zero_stage = stage; });
  }
  if (pins.micro_batch_size) {
    attempt("another micro-batch size", [](PinnedAxes& axes) { axes.micro_batch_size.reset(); });
  }
}

void TryMeshes(const Request& request, std::vector<Repair>& repairs) {
  const PinnedAxes& pins = request.pins;
  const auto attempt = [&](const char* change, auto edit) {
    Request changed = request;
    FreeMesh(changed);
    edit(changed.pins);
    Try(change, changed, repairs);
  };
  if (pins.virtual_pipeline_size || pins.schedule) {
    Request changed = request;
    changed.fixed.layers_per_virtual_stage.clear();
    FreePipeline(changed.pins);
    Try("another schedule", changed, repairs);
  }
  if (pins.pipeline_parallel_size) {
    attempt("another pipeline size", [](PinnedAxes& axes) {
      axes.pipeline_parallel_size.reset();
      FreePipeline(axes);
    });
  }
  if (pins.tensor_parallel_size) {
    attempt("another tensor-parallel size", [](PinnedAxes& axes) {
      axes.tensor_parallel_size.reset();
      axes.sequence_parallel.reset();
    });
  }
  if (pins.data_parallel_size) attempt("another data-parallel size", [](PinnedAxes&) {});
  if (pins.context_parallel_size) {
    attempt("another context-parallel size", [](PinnedAxes& axes) {
      axes.context_parallel_size.reset();
      axes.context_kind.reset();
    });
  }
  if (pins.expert_parallel_size && request.job.model.moe) {
    attempt("another expert-parallel size", [](PinnedAxes& axes) {
      axes.expert_parallel_size.reset();
      axes.expert_tensor_parallel_size.reset();
    });
  }
}

void TryTraining(const Request& request, std::vector<Repair>& repairs) {
  if (request.fixed.attention == spec::AttentionKind::kUnfused) {
    Request changed = request;
    changed.fixed.attention = spec::AttentionKind::kFlash;
    Try("flash attention", changed, repairs);
  }
  const spec::ModelSpec& model = request.job.model;
  const int64_t sequence = request.job.training.sequence_length;
  if (model.position == spec::PositionKind::kLearned && sequence > model.max_sequence_length) {
    Request changed = request;
    changed.job.training.sequence_length = model.max_sequence_length;
    Try(Concat("sequence length ", model.max_sequence_length), changed, repairs);
  }
  const bool is_fp32 = request.job.training.precision == spec::Precision::kFp32;
  if (is_fp32 && request.job.cluster.device.peak_flops_per_s.count(base::DType::kBFloat16) > 0) {
    Request changed = request;
    changed.job.training.precision = spec::Precision::kBf16;
    Try("bf16", changed, repairs);
  }
  // The next batch that all pinned axes divide.
  const PinnedAxes& pins = request.pins;
  const int64_t unit =
      pins.micro_batch_size.value_or(1) * pins.data_parallel_size.value_or(1) *
      (pins.schedule == spec::ScheduleKind::kInterleaved ? pins.pipeline_parallel_size.value_or(1)
                                                         : 1);
  if (unit > 0 && request.job.training.global_batch_size % unit != 0) {
    Request changed = request;
    changed.job.training.global_batch_size =
        base::RoundUp(request.job.training.global_batch_size, unit);
    Try(Concat("global batch size ", changed.job.training.global_batch_size), changed, repairs);
  }
}

void TryMoreDevices(const Request& request, std::vector<Repair>& repairs) {
  const size_t num_before = repairs.size();
  const spec::ClusterSpec& cluster = request.job.cluster;
  if (cluster.shared_compute_units > 0) return;  // more ranks, but no more memory
  for (int factor = 2; factor <= kMaxDeviceFactor && repairs.size() == num_before; factor *= 2) {
    Request changed = request;
    changed.job.num_devices *= factor;
    if (cluster.max_devices > 0 && changed.job.num_devices > cluster.max_devices) return;
    FreeMesh(changed);
    changed.pins.pipeline_parallel_size.reset();
    FreePipeline(changed.pins);
    Try(Concat(changed.job.num_devices, " devices"), changed, repairs);
  }
}

// More devices are not a faster repair.
double DeviceSeconds(const Repair& repair) {
  return repair.num_devices * repair.layout.report.step_time_s;
}

}  // namespace

void PinLayout(const spec::ParallelSpec& parallel, Request& request) {
  PinnedAxes& pins = request.pins;
  pins.tensor_parallel_size = parallel.tensor_parallel_size;
  pins.pipeline_parallel_size = parallel.pipeline_parallel_size;
  pins.data_parallel_size = parallel.data_parallel_size;
  pins.context_parallel_size = parallel.context_parallel_size;
  pins.expert_parallel_size = parallel.expert_parallel_size;
  pins.expert_tensor_parallel_size = parallel.expert_tensor_parallel_size;
  pins.context_kind = parallel.context_kind;
  pins.virtual_pipeline_size = parallel.virtual_pipeline_size;
  pins.micro_batch_size = parallel.micro_batch_size;
  pins.sequence_parallel = parallel.sequence_parallel;
  pins.recompute = parallel.recompute;
  pins.zero_stage = parallel.zero_stage;
  pins.schedule = parallel.schedule;
}

std::vector<Repair> FindRepairs(const Request& request) {
  std::vector<Repair> repairs;
  TryMemorySavers(request, repairs);
  TryMeshes(request, repairs);
  TryTraining(request, repairs);
  if (repairs.empty()) {
    Request free = request;
    free.pins = {};
    FreeMesh(free);
    Try("all axes set free", free, repairs);
  }
  TryMoreDevices(request, repairs);
  std::stable_sort(repairs.begin(), repairs.end(), [](const Repair& a, const Repair& b) {
    return DeviceSeconds(a) < DeviceSeconds(b);
  });
  if (repairs.size() > kNumRepairs) repairs.resize(kNumRepairs);
  return repairs;
}

}  // namespace tessera::planner
