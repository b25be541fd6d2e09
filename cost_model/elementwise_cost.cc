#include "cost_model/elementwise_cost.h"

#include "cost_model/number_bytes.h"
#include "cost_model/spec/op_list.h"

namespace tessera::cost_model {
namespace {

using base::OpKind;

// What comes on top of a fused operation's own bytes and kernel.
struct Extra {
  double bytes_per_element = 0;
  double num_kernels = 0;
};

// A norm written as element-wise operations in fp32: cast, square, mean, scale, cast, weight (and
// bias) forward; twice that backward.
Extra UnfusedNorm(double element_bytes, bool backward) {
  const double forward_bytes = 7 * kFp32Bytes + 2 * element_bytes;
  return {.bytes_per_element = (backward ? 2 : 1) * forward_bytes,
          .num_kernels = backward ? 12.0 : 6.0};
}

Extra NormBackwardExtra(const base::OpRecord& record, double element_bytes,
                        const spec::RuntimeSpec& runtime) {
  // The gradients of weight and bias are summed up by a second kernel.
  Extra extra{.num_kernels = 1};
  if (!runtime.fused_norm) extra = UnfusedNorm(element_bytes, /*backward=*/true);
  const bool adds_residual = record.dims[2] != 0;
  if (adds_residual && runtime.hidden_dropout) {  // of the branch that ended at the sum
    extra.bytes_per_element += 2 * element_bytes + kMaskBytes;
    extra.num_kernels += 1;
  }
  return extra;
}

Extra ResidualExtra(const base::OpRecord& record, double element_bytes,
                    const spec::RuntimeSpec& runtime) {
  Extra extra;
  if (runtime.hidden_dropout) extra.bytes_per_element += kMaskBytes;
  if (runtime.fused_residual) return extra;
  const double num_apart = (record.dims[2] != 0 ? 1 : 0) + (runtime.hidden_dropout ? 1 : 0);
  extra.bytes_per_element += 2 * element_bytes * num_apart;
  extra.num_kernels += num_apart;
  return extra;
}

Extra ExtraOf(const base::OpRecord& record, const RankDevice& device) {
  const spec::RuntimeSpec& runtime = device.runtime;
  const auto element_bytes = static_cast<double>(device.element_bytes);
  switch (record.kind) {
    case OpKind::kLayerNormForward:
    case OpKind::kRmsNormForward:
      return runtime.fused_norm ? Extra{} : UnfusedNorm(element_bytes, /*backward=*/false);
    case OpKind::kLayerNormBackward:
    case OpKind::kRmsNormBackward:
      return NormBackwardExtra(record, element_bytes, runtime);
    case OpKind::kResidualAdd:
      return ResidualExtra(record, element_bytes, runtime);
    case OpKind::kSwiGluForward:  // silu written and read
      return runtime.fused_activation ? Extra{} : Extra{2 * element_bytes, 1};
    case OpKind::kSwiGluBackward:  // silu again, its gradient, both halves put together
      return runtime.fused_activation ? Extra{} : Extra{7 * element_bytes, 3};
    case OpKind::kRope:  // halves swapped, two products, a sum, put together; queries and keys
      return runtime.fused_rope ? Extra{} : Extra{8 * element_bytes, 9};
    // A copy of zeros to add into, of every row and token the sum read before it is written;
    // indices by a sort.
    case OpKind::kTokenPermute:
      return runtime.fused_permute ? Extra{} : Extra{0, 3};
    case OpKind::kTokenUnpermute:
      return runtime.fused_permute ? Extra{} : Extra{3 * element_bytes, 3};
    // Cast, softmax, choice, scattering to [rows, experts] twice, and their counts; backward fewer.
    case OpKind::kRouterForward:
      return Extra{6 * kFp32Bytes, 8};
    case OpKind::kRouterBackward:
      return Extra{4 * kFp32Bytes, 5};
    case OpKind::kCrossEntropySumExp:  // an fp32 copy, shifted, exponentiated, divided
      return runtime.fused_cross_entropy ? Extra{} : Extra{7 * kFp32Bytes + element_bytes, 6};
    case OpKind::kCrossEntropyGrad:  // scaled and cast
      return runtime.fused_cross_entropy ? Extra{} : Extra{3 * kFp32Bytes + element_bytes, 4};
    default:
      return {};
  }
}

double ElementsOf(const base::OpRecord& record) {
  double elements = static_cast<double>(record.dims[0]) * static_cast<double>(record.dims[1]);
  if (record.kind == OpKind::kRope) elements *= static_cast<double>(record.dims[2]);
  return elements;
}

}  // namespace

KernelTime ElementwiseTime(const base::OpRecord& record, const RankDevice& device) {
  // Where masks are kept the backward pass is counted with the norm's that it follows.
  if (record.kind == OpKind::kDropout && device.runtime.hidden_dropout) return {};
  const Extra extra = ExtraOf(record, device);
  const double bytes = spec::MemoryBytesOf(record, device.element_bytes) +
                       extra.bytes_per_element * ElementsOf(record);
  // Where the cluster's file prices an operation whole, it is one operation.
  return StreamTime(bytes, 1 + (device.kernels ? extra.num_kernels : 0), device);
}

KernelTime OptimizerTime(int64_t elements, double extra_bytes, const RankDevice& device) {
  const auto count = static_cast<double>(elements);
  double bytes =
      spec::MemoryBytesOf({.kind = OpKind::kAdamW, .dims = {elements}}, device.element_bytes) +
      extra_bytes * count;
  double num_kernels = 1;
  if (!device.runtime.fused_optimizer) {
    // Decay, both moments, square root, division, update: each a pass over its operands.
    constexpr double kPassesApart = 20;
    bytes += (kPassesApart - 7) * kFp32Bytes * count;
    num_kernels = 8;
  }
  return StreamTime(bytes, num_kernels, device);
}

}  // namespace tessera::cost_model
