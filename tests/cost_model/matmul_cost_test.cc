#include "cost_model/matmul_cost.h"

#include <gtest/gtest.h>

#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

// One TFLOP/s a unit, tiles of 128 x 128 alone, no overheads.
spec::KernelSpec RoundKernels(int units) {
  return {.num_compute_units = units,
          .largest_tile_rows = 128,
          .largest_tile_columns = 128,
          .smallest_tile = 128,
          .scores_per_s = 1e18};
}

RankDevice KernelDevice(const spec::KernelSpec& kernels, spec::Precision precision,
                        const spec::RuntimeSpec& runtime = {}) {
  spec::ClusterSpec cluster = RoundCluster();
  cluster.device.peak_flops_per_s[base::DType::kFloat8] = 200e12;
  cluster.device.kernels = kernels;
  return MakeRankDevice(cluster, precision, 8, runtime);
}

base::OpRecord MatMul(int64_t m, int64_t n, int64_t k, base::MatMulLayout layout,
                      bool accumulates = false, base::Epilogue epilogue = base::Epilogue::kNone) {
  return {
      .kind = base::OpKind::kMatMul,
      .dims = {m, n, k, static_cast<int64_t>(layout), accumulates, static_cast<int64_t>(epilogue)}};
}

TEST(MatMulCostTest, TilesRunInWaves) {
  // 4096 x 4096 is 32 x 32 tiles; 108 units take them in ten waves, the last with 52 tiles.
  const MatMulTiling tiling =
      FastestTiling({.m = 4096, .n = 4096, .k = 4096}, 108e12, RoundKernels(108));
  EXPECT_EQ(tiling.num_tiles, 1024);
  EXPECT_EQ(tiling.num_waves, 10);
  EXPECT_EQ(tiling.split_k, 1);
  EXPECT_DOUBLE_EQ(tiling.seconds, 10 * 2.0 * 128 * 128 * 4096 / 1e12);
}

TEST(MatMulCostTest, OneTileMoreThanAWaveCostsAWave) {
  const spec::KernelSpec kernels = RoundKernels(64);
  const double full_s = FastestTiling({.m = 1024, .n = 1024, .k = 512}, 64e12, kernels).seconds;
  const double more_s = FastestTiling({.m = 1025, .n = 1024, .k = 512}, 64e12, kernels).seconds;
  EXPECT_DOUBLE_EQ(more_s, 2 * full_s);
}

TEST(MatMulCostTest, RowsThatAreNoMultipleOf16BytesSlowAProductDown) {
  spec::KernelSpec kernels = RoundKernels(64);
  kernels.misaligned_time_factor = 4;
  const RankDevice device = KernelDevice(kernels, spec::Precision::kBf16);
  const auto seconds = [&](int64_t m, int64_t n, int64_t k) {
    return MatMulTime(MatMul(m, n, k, base::MatMulLayout::kNT), device).device_s -
           device.launch_overhead_s;
  };
  // All of one wave of 8 x 8 tiles of 1024 steps.
  const double aligned_s = seconds(1024, 1024, 1024);
  EXPECT_NEAR(seconds(1024, 1023, 1024), 4 * aligned_s, 1e-12);  // 2 bytes
  EXPECT_NEAR(seconds(1024, 1022, 1024), 3 * aligned_s, 1e-12);  // 4 bytes
  EXPECT_NEAR(seconds(1024, 1020, 1024), 2 * aligned_s, 1e-12);  // 8 bytes
  EXPECT_NEAR(seconds(1024, 1016, 1024), aligned_s, 1e-12);
  EXPECT_NEAR(seconds(1023, 1024, 1024), aligned_s, 1e-12);  // rows there are, not how long
}

TEST(MatMulCostTest, FewTilesSplitTheInnerDimension) {
  // One tile of 128 x 128 on 108 units: k = 8192 makes 64 parts of 128.
  const MatMulTiling tiling =
      FastestTiling({.m = 128, .n = 128, .k = 8192}, 108e12, RoundKernels(108));
  EXPECT_EQ(tiling.split_k, 64);
  EXPECT_EQ(tiling.num_waves, 1);
  EXPECT_DOUBLE_EQ(tiling.seconds, 2.0 * 128 * 128 * 128 / 1e12);
}

TEST(MatMulCostTest, SmallTilesFillTheUnitsWhereLargeOnesDoNot) {
  spec::KernelSpec kernels = RoundKernels(64);
  kernels.smallest_tile = 64;
  kernels.tile_load_cost = 8;
  // 4 x 4 large tiles, or 8 x 8 small ones: one wave of a quarter of the work each, loaded from
  // half as long edges. k is too short to split.
  const MatMulTiling small = FastestTiling({.m = 512, .n = 512, .k = 100}, 64e12, kernels);
  EXPECT_EQ(small.tile_rows * small.tile_columns, 64 * 64);
  EXPECT_DOUBLE_EQ(small.seconds, 2.0 * (64 * 64 + 8 * 128) * 100 / 1e12);
  // 64 x 64 large tiles: whole waves either way, and large ones load less.
  const MatMulTiling large = FastestTiling({.m = 8192, .n = 8192, .k = 100}, 64e12, kernels);
  EXPECT_EQ(large.tile_rows * large.tile_columns, 128 * 128);
}

TEST(MatMulCostTest, AShortInnerDimensionPaysForTheEndsOfATile) {
  spec::KernelSpec kernels = RoundKernels(64);
  kernels.tile_overhead_k = 100;
  const double short_s = FastestTiling({.m = 1024, .n = 1024, .k = 100}, 64e12, kernels).seconds;
  const double long_s = FastestTiling({.m = 1024, .n = 1024, .k = 1900}, 64e12, kernels).seconds;
  EXPECT_DOUBLE_EQ(long_s / short_s, 10);  // 2000 steps to 200
}

TEST(MatMulCostTest, ProductsOfAThinOperandAreBoundByMemory) {
  spec::KernelSpec kernels = RoundKernels(64);
  kernels.smallest_tile = 16;
  const RankDevice device = KernelDevice(kernels, spec::Precision::kBf16);
  // 8 x 8192 times 8192 x 8192: the weight's 134 MB at 1 TB/s.
  const double bytes = 2.0 * (8 * 8192 + 8192.0 * 8192 + 8 * 8192);
  EXPECT_DOUBLE_EQ(MatMulTime(MatMul(8, 8192, 8192, base::MatMulLayout::kNT), device).device_s,
                   bytes / 1e12);
}

TEST(MatMulCostTest, AFasterDeviceIsNeverSlower) {
  spec::KernelSpec kernels = RoundKernels(108);
  kernels.largest_tile_rows = 256;
  kernels.smallest_tile = 64;
  kernels.tile_load_cost = 20;
  kernels.tile_overhead_k = 200;
  for (const int64_t m : {1, 100, 1000, 5000}) {
    for (const int64_t n : {64, 300, 12288}) {
      for (const int64_t k : {64, 1000, 9000}) {
        const MatMulShape shape{.m = m, .n = n, .k = k};
        const double slow_s = FastestTiling(shape, 100e12, kernels).seconds;
        EXPECT_LT(FastestTiling(shape, 110e12, kernels).seconds, slow_s);
        EXPECT_LE(slow_s, FastestTiling({.m = 2 * m, .n = n, .k = k}, 100e12, kernels).seconds);
      }
    }
  }
}

TEST(MatMulCostTest, ALaunchIsTheLeastTime) {
  RankDevice device = KernelDevice(RoundKernels(64), spec::Precision::kBf16);
  device.launch_overhead_s = 3e-6;
  const double seconds = MatMulTime(MatMul(16, 16, 16, base::MatMulLayout::kNT), device).device_s;
  EXPECT_GT(seconds, 3e-6);
  EXPECT_LT(seconds, 4e-6);
}

TEST(MatMulCostTest, AddingToGradientsApartMovesMoreBytesInAnotherKernel) {
  spec::RuntimeSpec runtime;
  const base::OpRecord wgrad = MatMul(1000, 1000, 1, base::MatMulLayout::kTN, true);
  const KernelTime fused =
      MatMulTime(wgrad, KernelDevice(RoundKernels(64), spec::Precision::kBf16, runtime));
  runtime.fused_gradient_accumulation = false;
  const KernelTime apart =
      MatMulTime(wgrad, KernelDevice(RoundKernels(64), spec::Precision::kBf16, runtime));
  // The product writes 2 bytes in place of reading and writing 4; the addition reads 2, and reads
  // and writes 4.
  EXPECT_NEAR(apart.device_s - fused.device_s, (2 - 8 + 10) * 1e6 / 1e12, 1e-15);
  EXPECT_EQ(apart.num_kernels, fused.num_kernels + 1);
}

TEST(MatMulCostTest, EightBitOperandsAreCast) {
  const RankDevice device = KernelDevice(RoundKernels(64), spec::Precision::kFp8);
  const auto time = [&](base::MatMulLayout layout) {
    return MatMulTime(MatMul(6400, 6400, 6400, layout), device);
  };
  const KernelTime wgrad = time(base::MatMulLayout::kTN);
  const double elements = 6400.0 * 6400;
  // Data gradient: two bytes read, one written in either order, by a kernel of its own.
  EXPECT_NEAR(time(base::MatMulLayout::kNN).device_s, wgrad.device_s + 4 * elements / 1e12, 1e-12);
  EXPECT_EQ(time(base::MatMulLayout::kNN).num_kernels, 2);
  // Forward: the transposed copy alone.
  EXPECT_NEAR(time(base::MatMulLayout::kNT).device_s, wgrad.device_s + elements / 1e12, 1e-12);
  EXPECT_EQ(time(base::MatMulLayout::kNT).num_kernels, 1);
}

}  // namespace
}  // namespace tessera::cost_model
