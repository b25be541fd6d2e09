#include "kernels/cpu/dropout.h"

#include <algorithm>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kDrawsAtOnce = 4 * kLanes;

// base::Philox4x32 of the blocks [block, block + kLanes), block by block in `bits`.
void DrawBlocks(base::PhiloxKey key, uint64_t block, uint32_t* bits) {
  uint32_t x[kLanes], y[kLanes], z[kLanes] = {}, w[kLanes] = {};
  for (int64_t i = 0; i < kLanes; ++i) {
    const uint64_t counter = block + static_cast<uint64_t>(i);
    x[i] = static_cast<uint32_t>(counter);
    y[i] = static_cast<uint32_t>(counter >> 32);
  }
  for (int round = 0; round < base::kPhiloxRounds; ++round) {
#pragma omp simd
    for (int64_t i = 0; i < kLanes; ++i) {
      const uint64_t product0 = static_cast<uint64_t>(base::kPhiloxMultiplier0) * x[i];
      const uint64_t product1 = static_cast<uint64_t>(base::kPhiloxMultiplier1) * z[i];
      x[i] = static_cast<uint32_t>(product1 >> 32) ^ y[i] ^ key[0];
      y[i] = static_cast<uint32_t>(product1);
      z[i] = static_cast<uint32_t>(product0 >> 32) ^ w[i] ^ key[1];
      w[i] = static_cast<uint32_t>(product0);
    }
    key[0] += base::kPhiloxWeyl0;
    key[1] += base::kPhiloxWeyl1;
  }
  for (int64_t i = 0; i < kLanes; ++i) {
    bits[4 * i] = x[i];
    bits[4 * i + 1] = y[i];
    bits[4 * i + 2] = z[i];
    bits[4 * i + 3] = w[i];
  }
}

}  // namespace

void FillBits(base::PhiloxKey key, uint64_t first_index, int64_t n, uint32_t* bits) {
  uint32_t drawn[kDrawsAtOnce];
  uint64_t block = first_index / 4;
  auto skipped = static_cast<int64_t>(first_index % 4);
  for (int64_t done = 0; done < n; block += kLanes, skipped = 0) {
    DrawBlocks(key, block, drawn);
    const int64_t count = std::min(kDrawsAtOnce - skipped, n - done);
    std::copy_n(drawn + skipped, count, bits + done);
    done += count;
  }
}

void RowMask::Apply(int64_t row, const float* x, float* y) {
  const auto width = static_cast<int64_t>(bits_.size());
  FillBits(dropout_.key, dropout_.first_index + dropout_.RowOf(row) * dropout_.index_stride, width,
           bits_.data());
  const uint32_t* const bits = bits_.data();
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) y[i] = bits[i] >= threshold_ ? x[i] * scale_ : 0.0F;
}

void CpuBackend::DoDropout(const DropoutArgs& args) {
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    RowReader reader;
    RowWriter writer;
    RowMask mask(args.dropout, args.width);
    for (int64_t row = begin; row < end; ++row) {
      const float* const x = reader.Read(args.x.At(row * args.width), args.width);
      mask.Apply(row, x, writer.Open(args.y.At(row * args.width), args.width));
      writer.Store();
    }
  });
}

}  // namespace tessera::kernels
