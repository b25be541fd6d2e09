#include "cost_model/attention_cost.h"

#include <algorithm>

#include "cost_model/base/math.h"
#include "cost_model/matmul_cost.h"
#include "cost_model/number_bytes.h"
#include "cost_model/spec/efficiency.h"
#include "cost_model/spec/op_list.h"

namespace tessera::cost_model {
namespace {

// Query rows, and keys, that a fused kernel works on at a time.
constexpr int64_t kBlock = 128;

bool KeepsProbabilities(const base::OpRecord& record) {
  return record.dims[5] == static_cast<int64_t>(base::AttentionStats::kProbabilities);
}
bool IsBackward(const base::OpRecord& record) {
  return record.kind == base::OpKind::kAttentionBackward;
}

struct AttentionShape {
  int64_t batch_heads = 0;
  int64_t queries = 0, keys = 0;
  int64_t head_dim = 0, value_dim = 0;
  bool has_window = false;
  bool causal = true;
  double attended = 0;  // keys of a query on average, without a window
  double windowed = 0;  // within it
  double Scores() const {
    return static_cast<double>(batch_heads) * static_cast<double>(queries) *
           static_cast<double>(keys);
  }
};

AttentionShape ShapeOf(const base::OpRecord& record) {
  const auto& dims = record.dims;
  base::OpRecord without_window = record;
  without_window.dims[8] = 0;
  return {.batch_heads = dims[0] * dims[2],
          .queries = dims[1],
          .keys = dims[6] > 0 ? dims[6] : dims[1],
          .head_dim = dims[4],
          .value_dim = dims[7] > 0 ? dims[7] : dims[4],
          .has_window = dims[8] > 0,
          .causal = dims[9] == static_cast<int64_t>(base::AttentionMask::kCausal),
          .attended = spec::MeanAttendedKeys(without_window),
          .windowed = spec::MeanAttendedKeys(record)};
}

// Share of the scores that a fused kernel computes: those below the diagonal and within the window,
// and what else the blocks on both borders hold.
double ComputedShare(const AttentionShape& shape) {
  const auto keys = static_cast<double>(shape.keys);
  const double block = std::min<double>(kBlock, keys);
  const double pairs = shape.attended + (shape.causal ? 0.5 * block : 0);
  if (!shape.has_window) return pairs / keys;
  // The window's far border is a diagonal too.
  return std::min(pairs, shape.windowed + block) / keys;
}

double FusedArithmeticSeconds(const AttentionShape& shape, bool backward,
                              const RankDevice& device) {
  const spec::KernelSpec& kernels = *device.kernels;
  const double efficiency =
      backward ? kernels.attention_backward_efficiency : kernels.attention_forward_efficiency;
  // Scores and values forward; backward the scores again, two gradients of either product.
  const auto head_dim = static_cast<double>(shape.head_dim);
  const auto value_dim = static_cast<double>(shape.value_dim);
  const double flops_per_score =
      backward ? 6 * head_dim + 4 * value_dim : 2 * (head_dim + value_dim);
  const double exponentials = backward ? 2 : 1;
  const double score_s = flops_per_score / (device.activation_flops_per_s * efficiency) +
                         exponentials / kernels.scores_per_s;
  // Waves of blocks over the units; causal blocks differ in length and even the last wave out by
  // half.
  const auto blocks = static_cast<double>(shape.batch_heads * base::CeilDiv(shape.queries, kBlock));
  const auto units = static_cast<double>(kernels.num_compute_units);
  const double waves = std::max(1.0, blocks / units + 0.5);
  return shape.Scores() * ComputedShare(shape) * score_s * waves * units / blocks;
}

KernelTime FusedTime(const base::OpRecord& record, const RankDevice& device) {
  const bool backward = IsBackward(record);
  double arithmetic_s = 0;
  if (device.kernels) {
    arithmetic_s = device.runtime.fused_attention_time_factor *
                   FusedArithmeticSeconds(ShapeOf(record), backward, device);
  } else {
    const double flops = spec::FlopsOf(record);
    arithmetic_s =
        flops / (device.activation_flops_per_s * EfficiencyAt(device.attention_efficiency, flops));
  }
  const double memory_s = StreamSeconds(spec::MemoryBytesOf(record, device.element_bytes), device);
  const double num_kernels = backward && device.kernels ? 2 : 1;
  return {.device_s = std::max(arithmetic_s, memory_s) + num_kernels * device.launch_overhead_s,
          .num_kernels = num_kernels};
}

// Batched products of unfused attention: two forward; their two gradients each backward.
KernelTime UnfusedProductsTime(const AttentionShape& shape, bool backward,
                               const RankDevice& device) {
  const auto element_bytes = static_cast<double>(device.element_bytes);
  const double wide_bytes = shape.Scores() * element_bytes;
  const double narrow_bytes = static_cast<double>(shape.batch_heads) *
                              static_cast<double>(shape.queries + shape.keys) *
                              static_cast<double>(shape.head_dim) * element_bytes;
  const double misalignment =
      std::max(Misalignment(shape.head_dim, device), Misalignment(shape.value_dim, device));
  const auto seconds = [&](int64_t m, int64_t n, int64_t k) {
    return ProductSeconds(
        {.m = m, .n = n, .k = k, .batch = shape.batch_heads, .misalignment = misalignment},
        device.activation_flops_per_s, wide_bytes + narrow_bytes, device);
  };
  // Forward: scores, then values. Backward: dP as the scores; dQ, dK and dV out of wide operands.
  const double scores_s = seconds(shape.queries, shape.keys, shape.head_dim);
  const double products_s = backward
                                ? seconds(shape.queries, shape.keys, shape.value_dim) +
                                      seconds(shape.queries, shape.head_dim, shape.keys) +
                                      seconds(shape.keys, shape.head_dim, shape.queries) +
                                      seconds(shape.keys, shape.value_dim, shape.queries)
                                : scores_s + seconds(shape.queries, shape.value_dim, shape.keys);
  const double num_kernels = backward ? 4 : 2;
  return {.device_s = products_s + num_kernels * device.launch_overhead_s,
          .num_kernels = num_kernels};
}

// Passes over the scores beside the products.
KernelTime UnfusedScoresTime(const AttentionShape& shape, bool backward, const RankDevice& device) {
  const spec::RuntimeSpec& runtime = device.runtime;
  const auto element_bytes = static_cast<double>(device.element_bytes);
  // Softmax: scores in, probabilities out; probabilities and their gradient in, scores' out.
  const double softmax_passes = backward ? 3 : 2;
  double bytes = softmax_passes * element_bytes;
  double num_kernels = 1;
  if (!spec::FusesSoftmax(runtime, shape.batch_heads, shape.keys)) {
    // Scaling, mask and softmax in fp32; there and back from a narrower type.
    bytes = (softmax_passes + 4) * kFp32Bytes + kMaskBytes;
    num_kernels += 2;
    if (element_bytes < kFp32Bytes) {
      bytes += 2 * (element_bytes + kFp32Bytes);
      num_kernels += 2;
    }
  }
  if (runtime.attention_dropout) {
    bytes += 2 * element_bytes + kMaskBytes;
    num_kernels += 1;
  }
  return StreamTime(shape.Scores() * bytes, num_kernels, device);
}

// Products at the tables' efficiency and four passes over the scores, one after the other.
KernelTime UnfusedTableTime(const base::OpRecord& record, const RankDevice& device) {
  const double flops = spec::FlopsOf(record);
  const double arithmetic_s =
      flops / (device.activation_flops_per_s * EfficiencyAt(device.attention_efficiency, flops));
  return {.device_s = arithmetic_s +
                      StreamSeconds(spec::MemoryBytesOf(record, device.element_bytes), device) +
                      device.launch_overhead_s,
          .num_kernels = 1};
}

KernelTime CopiesTime(const base::OpRecord& record, const RankDevice& device) {
  if (!device.runtime.attention_copies) return {};
  // Queries, keys, values and the output, each read and written.
  const double rows = static_cast<double>(record.dims[0] * record.dims[1]);
  const double width =
      static_cast<double>((2 * record.dims[2] + 2 * record.dims[3]) * record.dims[4]);
  return StreamTime(2 * rows * width * static_cast<double>(device.element_bytes), 2, device);
}

}  // namespace

KernelTime AttentionTime(const base::OpRecord& record, const RankDevice& device) {
  KernelTime time = CopiesTime(record, device);
  if (!KeepsProbabilities(record)) {
    time += FusedTime(record, device);
  } else if (!device.kernels) {
    time += UnfusedTableTime(record, device);
  } else {
    const AttentionShape shape = ShapeOf(record);
    time += UnfusedProductsTime(shape, IsBackward(record), device);
    time += UnfusedScoresTime(shape, IsBackward(record), device);
  }
  return time;
}

}  // namespace tessera::cost_model
