#include "cost_model/matmul_cost.h"

#include <algorithm>
#include <bit>

#include "cost_model/base/math.h"
#include "cost_model/number_bytes.h"
#include "cost_model/spec/efficiency.h"
#include "cost_model/spec/op_list.h"

namespace tessera::cost_model {
namespace {

// A part of a split inner dimension is at least so long: shorter ones are all prologue.
constexpr int64_t kLeastSplitK = 128;

// Parts into which `tiles` output tiles are split along k to fill the units.
int64_t SplitK(int64_t tiles, int64_t k, int64_t units) {
  return std::max<int64_t>(1, std::min(units / tiles, k / kLeastSplitK));
}

// A grouped product is a batch of as many, its rows (of a weight gradient: its inner dimension)
// split evenly.
MatMulShape ShapeOf(const base::OpRecord& record, const RankDevice& device) {
  MatMulShape shape{.m = record.dims[0], .n = record.dims[1], .k = record.dims[2]};
  const bool is_weight_gradient = record.dims[3] == static_cast<int64_t>(base::MatMulLayout::kTN);
  shape.misalignment = std::max(Misalignment(shape.n, device),
                                Misalignment(is_weight_gradient ? shape.m : shape.k, device));
  if (record.kind != base::OpKind::kGroupedMatMul) return shape;
  shape.batch = std::max<int64_t>(1, record.dims[6]);
  int64_t& split = is_weight_gradient ? shape.k : shape.m;
  split = std::max<int64_t>(1, base::CeilDiv(split, shape.batch));
  return shape;
}

// Elements of the operands and of the result.
struct MatMulElements {
  double a = 0, b = 0, c = 0;
};

MatMulElements ElementsOf(const MatMulShape& shape) {
  const auto batch = static_cast<double>(shape.batch), m = static_cast<double>(shape.m),
             n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  return {.a = batch * m * k, .b = batch * k * n, .c = batch * m * n};
}

// Bytes that the kernel of a product moves: operands, result, what it adds to.
double ProductBytes(const base::OpRecord& record, const MatMulShape& shape,
                    const RankDevice& device) {
  const MatMulElements elements = ElementsOf(shape);
  const auto operand_bytes = static_cast<double>(device.matmul_element_bytes);
  const auto result_bytes = static_cast<double>(device.element_bytes);
  const bool accumulates = record.dims[4] != 0 && device.runtime.fused_gradient_accumulation;
  const auto epilogue = static_cast<base::Epilogue>(record.dims[5]);
  const bool has_aux = device.runtime.product_epilogues && (epilogue == base::Epilogue::kBiasGelu ||
                                                            epilogue == base::Epilogue::kGeluGrad);
  return (elements.a + elements.b) * operand_bytes +
         elements.c * (accumulates ? 2 * kFp32Bytes : result_bytes) +
         (has_aux ? elements.c * result_bytes : 0);
}

// Casts to 8 bits. The kernel that makes a product's input writes it cast, and transposed for the
// weight gradient: one byte more. The output's gradient is cast by a kernel of its own before the
// data gradient: read, written as it is and transposed. The weight gradient finds both cast, and
// weights are cast once a step.
KernelTime CastTime(const base::OpRecord& record, const MatMulShape& shape,
                    const RankDevice& device) {
  if (device.matmul_element_bytes >= device.element_bytes) return {};
  const double operand_elements = ElementsOf(shape).a;
  const auto cast_bytes = static_cast<double>(device.matmul_element_bytes);
  switch (static_cast<base::MatMulLayout>(record.dims[3])) {
    case base::MatMulLayout::kNT:
      return {.device_s = StreamSeconds(operand_elements * cast_bytes, device)};
    case base::MatMulLayout::kNN:
      return StreamTime(
          operand_elements * (static_cast<double>(device.element_bytes) + 2 * cast_bytes), 1,
          device);
    case base::MatMulLayout::kTN:
      return {};
  }
  return {};
}

// Bias and activation as kernels of their own.
KernelTime EpilogueTime(const base::OpRecord& record, const MatMulShape& shape,
                        const RankDevice& device) {
  if (device.runtime.product_epilogues) return {};
  const double pass_bytes = ElementsOf(shape).c * static_cast<double>(device.element_bytes);
  const bool fused = device.runtime.fused_activation;
  switch (static_cast<base::Epilogue>(record.dims[5])) {
    case base::Epilogue::kBiasGelu:  // x, y; apart: x and x + bias too
      return StreamTime((fused ? 2 : 4) * pass_bytes, fused ? 1 : 2, device);
    case base::Epilogue::kGeluGrad:  // dy, x, dx
      return StreamTime(3 * pass_bytes, 1, device);
    case base::Epilogue::kNone:
    case base::Epilogue::kBias:  // linear layers of every framework add it in the product
      return {};
  }
  return {};
}

// A gradient in the activations' type, added to the fp32 one by a kernel of its own.
KernelTime AccumulationTime(const base::OpRecord& record, const RankDevice& device) {
  if (record.dims[4] == 0 || device.runtime.fused_gradient_accumulation) return {};
  const double elements = static_cast<double>(record.dims[0]) * static_cast<double>(record.dims[1]);
  return StreamTime(elements * (static_cast<double>(device.element_bytes) + 2 * kFp32Bytes), 1,
                    device);
}

}  // namespace

double Misalignment(int64_t elements, const RankDevice& device) {
  constexpr int kAlignmentBits = 4;  // 16 bytes
  const auto row_bytes = static_cast<uint64_t>(elements * device.matmul_element_bytes);
  return std::max(0, kAlignmentBits - std::countr_zero(row_bytes)) / 3.0;
}

MatMulTiling FastestTiling(const MatMulShape& shape, double flops_per_s,
                           const spec::KernelSpec& kernels) {
  const int64_t units = kernels.num_compute_units;
  const double unit_flops_per_s = flops_per_s / static_cast<double>(units);
  MatMulTiling best;
  for (int64_t rows = kernels.largest_tile_rows; rows >= kernels.smallest_tile; rows /= 2) {
    for (int64_t columns = kernels.largest_tile_columns; columns >= kernels.smallest_tile;
         columns /= 2) {
      MatMulTiling tiling{.tile_rows = rows, .tile_columns = columns};
      const int64_t output_tiles =
          shape.batch * base::CeilDiv(shape.m, rows) * base::CeilDiv(shape.n, columns);
      tiling.split_k = SplitK(output_tiles, shape.k, units);
      tiling.num_tiles = output_tiles * tiling.split_k;
      tiling.num_waves = base::CeilDiv(tiling.num_tiles, units);
      const double steps =
          static_cast<double>(base::CeilDiv(shape.k, tiling.split_k)) + kernels.tile_overhead_k;
      // rows * columns * (1 + tile_load_cost * (1 / rows + 1 / columns))
      const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
      const double step_flops = 2 * (r * c + kernels.tile_load_cost * (r + c));
      tiling.seconds =
          static_cast<double>(tiling.num_waves) * steps * step_flops / unit_flops_per_s;
      if (best.num_waves == 0 || tiling.seconds < best.seconds) best = tiling;
    }
  }
  return best;
}

double ProductSeconds(const MatMulShape& shape, double flops_per_s, double bytes,
                      const RankDevice& device) {
  double arithmetic_s = 0;
  if (device.kernels) {
    const MatMulTiling tiling = FastestTiling(shape, flops_per_s, *device.kernels);
    const double misaligned_factor = shape.batch > 1 ? device.kernels->misaligned_batch_time_factor
                                                     : device.kernels->misaligned_time_factor;
    arithmetic_s = tiling.seconds * (1 + (misaligned_factor - 1) * shape.misalignment);
    // Partial sums in fp32: written and read.
    if (tiling.split_k > 1) {
      bytes += 2 * kFp32Bytes * static_cast<double>(shape.batch * shape.m * shape.n) *
               static_cast<double>(tiling.split_k);
    }
  } else {
    const double flops = 2.0 * static_cast<double>(shape.batch * shape.m) *
                         static_cast<double>(shape.n) * static_cast<double>(shape.k);
    arithmetic_s = flops / (flops_per_s * EfficiencyAt(device.matmul_efficiency, flops));
  }
  return std::max(arithmetic_s, StreamSeconds(bytes, device));
}

KernelTime MatMulTime(const base::OpRecord& record, const RankDevice& device) {
  const MatMulShape shape = ShapeOf(record, device);
  KernelTime time{.device_s = ProductSeconds(shape, device.matmul_flops_per_s,
                                             ProductBytes(record, shape, device), device) +
                              device.launch_overhead_s,
                  .num_kernels = 1};
  time += CastTime(record, shape, device);
  time += EpilogueTime(record, shape, device);
  time += AccumulationTime(record, device);
  return time;
}

}  // namespace tessera::cost_model
