#include "engine/train/op_profile.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/spec/device_peak.h"
#include "cost_model/spec/op_list.h"

namespace tessera::engine {
namespace {

using base::OpKind;
using base::OpRecord;
using spec::Axis;

Axis AxisOf(const OpRecord& record) {
  return static_cast<Axis>(record.kind == OpKind::kBarrier ? record.dims[1] : record.dims[2]);
}

// What travels along an axis. Messages say it themselves.
int64_t ElementBytes(const OpRecord& record, const spec::PrecisionTypes& types) {
  if (record.kind == OpKind::kSend || record.kind == OpKind::kRecv) return record.dims[3];
  if (GroupOf(record) != OpGroup::kDataComm) return base::SizeBytes(types.activation);
  const bool is_gathered = record.kind == OpKind::kAllGather;
  return base::SizeBytes(is_gathered ? types.parameter : types.gradient);
}

// Bytes that a rank of a ring sends.
double LinkBytes(const OpRecord& record, const spec::PrecisionTypes& types) {
  const double bytes = static_cast<double>(record.dims[0] * ElementBytes(record, types));
  const auto n = static_cast<double>(record.dims[1]);
  switch (record.kind) {
    case OpKind::kAllReduce:
      return 2 * (n - 1) / n * bytes;
    case OpKind::kReduceScatter:
    case OpKind::kAllGather:
    case OpKind::kAllToAll:
      return (n - 1) / n * bytes;
    case OpKind::kBarrier:
      return 0;
    default:
      return bytes;
  }
}

}  // namespace

void OpProfiler::OnOpBegin(const OpRecord& record) {
  if (is_in_step_) open_.push_back({record, backend_.Mark()});
}

void OpProfiler::OnOpEnd(const OpRecord& record) {
  if (!is_in_step_) return;
  TESSERA_CHECK(!open_.empty() && open_.back().record == record, base::ToString(record),
                " ends, but did not begin last");
  open_.back().end = backend_.Mark();
  spans_.push_back(open_.back());
  open_.pop_back();
}

void OpProfiler::EndStep(const std::vector<double>& mark_times_s, double step_time_s, bool counts) {
  is_in_step_ = false;
  if (counts) {
    for (const Span& span : spans_) {
      Total& total = totals_[span.record];
      ++total.count;
      total.seconds += mark_times_s.at(span.end) - mark_times_s.at(span.begin);
    }
    ++num_steps_;
    steps_s_ += step_time_s;
  }
  spans_.clear();
}

OpProfile OpProfiler::Take() const {
  OpProfile profile{.num_steps = num_steps_, .steps_s = steps_s_};
  for (const auto& [record, total] : totals_) {
    profile.ops.push_back({record, total.count, total.seconds});
  }
  std::stable_sort(profile.ops.begin(), profile.ops.end(),
                   [](const OpUse& a, const OpUse& b) { return a.seconds > b.seconds; });
  return profile;
}

OpRates RatesOf(const OpUse& use, const spec::Plan& plan) {
  OpRates rates;
  if (use.seconds <= 0) return rates;
  const spec::PrecisionTypes types = spec::TypesOf(plan.training.precision);
  const auto count = static_cast<double>(use.count);
  if (base::IsCommunication(use.record.kind)) {
    rates.bytes_per_s = count * LinkBytes(use.record, types) / use.seconds;
    return rates;
  }
  rates.flops_per_s = count * spec::FlopsOf(use.record) / use.seconds;
  rates.bytes_per_s =
      count * spec::MemoryBytesOf(use.record, base::SizeBytes(types.activation)) / use.seconds;
  const spec::ClusterSpec& cluster = plan.cluster;
  if (!cluster.device.peak_flops_per_s.contains(types.matmul)) return rates;
  const double peak_flops_per_s =
      spec::PeakFlopsPerDevice(cluster, plan.training.precision, plan.num_devices);
  // A pool's bandwidth is shared by its ranks.
  const double bandwidth_bytes_per_s = cluster.device.memory_bandwidth_bytes_per_s /
                                       (cluster.shared_compute_units > 0 ? plan.num_devices : 1);
  if (bandwidth_bytes_per_s <= 0) return rates;
  rates.share_of_peak =
      std::max(rates.flops_per_s / peak_flops_per_s, rates.bytes_per_s / bandwidth_bytes_per_s);
  return rates;
}

std::string_view ToString(OpGroup group) {
  switch (group) {
    case OpGroup::kCompute:
      return "compute";
    case OpGroup::kTensorComm:
      return "tensor comm.";
    case OpGroup::kContextComm:
      return "context comm.";
    case OpGroup::kExpertComm:
      return "expert comm.";
    case OpGroup::kPipelineComm:
      return "pipeline comm.";
    case OpGroup::kDataComm:
      return "data comm.";
    case OpGroup::kOptimizer:
      return "optimizer";
  }
  base::FailCheck(__FILE__, __LINE__, "known group", static_cast<int>(group));
}

OpGroup GroupOf(const OpRecord& record) {
  if (record.kind == OpKind::kAdamW || record.kind == OpKind::kSumOfSquares) {
    return OpGroup::kOptimizer;
  }
  if (!base::IsCommunication(record.kind)) return OpGroup::kCompute;
  switch (AxisOf(record)) {
    case Axis::kTensor:
      return OpGroup::kTensorComm;
    case Axis::kContext:
      return OpGroup::kContextComm;
    case Axis::kExpert:
    case Axis::kExpertTensor:
      return OpGroup::kExpertComm;
    case Axis::kPipeline:
    case Axis::kModel:
    case Axis::kWorld:  // the meeting of all ranks, where stages wait for each other
      return OpGroup::kPipelineComm;
    case Axis::kData:
    case Axis::kGradient:
    case Axis::kEmbedding:
    case Axis::kKvReplica:
    case Axis::kExpertData:
    case Axis::kShard:
    case Axis::kShardReplica:
    case Axis::kExpertShard:
    case Axis::kExpertShardReplica:
      return OpGroup::kDataComm;
  }
  base::FailCheck(__FILE__, __LINE__, "known axis", static_cast<int>(AxisOf(record)));
}

std::array<double, kNumOpGroups> SecondsByGroup(const OpProfile& profile) {
  std::array<double, kNumOpGroups> seconds = {};
  for (const OpUse& use : profile.ops) {
    seconds[static_cast<size_t>(GroupOf(use.record))] += use.seconds;
  }
  return seconds;
}

double PredictedSeconds(OpGroup group, const spec::TimeBreakdown& time) {
  switch (group) {
    case OpGroup::kCompute:
      return time.Compute();
    case OpGroup::kTensorComm:
      return time.tp_comm_s;
    case OpGroup::kContextComm:
      return time.cp_comm_s;
    case OpGroup::kExpertComm:
      return time.ep_comm_s;
    case OpGroup::kPipelineComm:
      return time.pp_comm_s + time.bubble_s;
    case OpGroup::kDataComm:
      return time.dp_comm_s;
    case OpGroup::kOptimizer:
      return time.optimizer_s;
  }
  base::FailCheck(__FILE__, __LINE__, "known group", static_cast<int>(group));
}

}  // namespace tessera::engine
