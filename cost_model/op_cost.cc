#include "cost_model/op_cost.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/efficiency.h"
#include "cost_model/spec/op_list.h"

namespace tessera::cost_model {
namespace {

bool IsAttention(base::OpKind kind) {
  return kind == base::OpKind::kAttentionForward || kind == base::OpKind::kAttentionBackward;
}

double StreamSeconds(double bytes, const RankDevice& device) {
  if (bytes <= 0) return 0;
  return bytes /
         (device.memory_bandwidth_bytes_per_s * EfficiencyAt(device.memory_efficiency, bytes));
}

// Attention that keeps its probabilities is a chain of kernels: products, then passes over the
// scores.
bool IsUnfusedAttention(const base::OpRecord& record) {
  return IsAttention(record.kind) &&
         record.dims[5] == static_cast<int64_t>(base::AttentionStats::kProbabilities);
}

}  // namespace

double OpSeconds(const base::OpRecord& record, const RankDevice& device) {
  TESSERA_CHECK(!base::IsCommunication(record.kind), base::ToString(record));
  double arithmetic_s = 0;
  // Element-wise operations are bound by memory on every machine: their few FLOPs run on other
  // units than the matrix products' and are not priced.
  if (record.kind == base::OpKind::kMatMul || record.kind == base::OpKind::kGroupedMatMul ||
      IsAttention(record.kind)) {
    const double flops = spec::FlopsOf(record);
    const double efficiency = EfficiencyAt(
        IsAttention(record.kind) ? device.attention_efficiency : device.matmul_efficiency, flops);
    arithmetic_s = flops / (device.matmul_flops_per_s * efficiency);
  }
  const double memory_s = StreamSeconds(spec::MemoryBytesOf(record, device.element_bytes), device);
  const double busy_s =
      IsUnfusedAttention(record) ? arithmetic_s + memory_s : std::max(arithmetic_s, memory_s);
  return busy_s + device.launch_overhead_s;
}

double MemorySeconds(double bytes, const RankDevice& device) {
  return StreamSeconds(bytes, device) + device.launch_overhead_s;
}

}  // namespace tessera::cost_model
