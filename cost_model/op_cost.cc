#include "cost_model/op_cost.h"

#include "cost_model/attention_cost.h"
#include "cost_model/base/check.h"
#include "cost_model/elementwise_cost.h"
#include "cost_model/matmul_cost.h"

namespace tessera::cost_model {

KernelTime OpTime(const base::OpRecord& record, const RankDevice& device) {
  TESSERA_CHECK(!base::IsCommunication(record.kind), base::ToString(record));
  switch (record.kind) {
    case base::OpKind::kMatMul:
    case base::OpKind::kGroupedMatMul:
      return MatMulTime(record, device);
    case base::OpKind::kAttentionForward:
    case base::OpKind::kAttentionBackward:
      return AttentionTime(record, device);
    default:
      return ElementwiseTime(record, device);
  }
}

double OpSeconds(const base::OpRecord& record, const RankDevice& device) {
  return OpTime(record, device).device_s;
}

double MemorySeconds(double bytes, const RankDevice& device) {
  return StreamTime(bytes, 1, device).device_s;
}

}  // namespace tessera::cost_model
