#include <cstring>
#include <optional>
#include <vector>

#include "kernels/cpu/add_into.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/rows.h"
#include "kernels/grouped_matmul.h"

namespace tessera::kernels {
namespace {

void AddRow(const float* x, const float* residual, float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] + residual[j];
}

void AddRowAndBias(const float* x, const float* residual, const float* bias, float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] + residual[j] + bias[j];
}

// What a row adds to the residual: dropout of x + bias.
class DroppedBranch {
 public:
  DroppedBranch(const RowDropout& dropout, int64_t width)
      : mask_(dropout, width), sum_(static_cast<size_t>(width)) {}

  // bias: null for none. Valid until the next call.
  const float* Row(int64_t row, const float* x, const float* bias) {
    const auto width = static_cast<int64_t>(sum_.size());
    if (bias != nullptr) {
      AddRow(x, bias, sum_.data(), width);
      x = sum_.data();
    }
    mask_.Apply(row, x, sum_.data());
    return sum_.data();
  }

 private:
  RowMask mask_;
  std::vector<float> sum_;
};

// Sums down a column go in blocks of rows, which keeps rounding errors of long columns small.
constexpr int64_t kSumBlockRows = 64;

// dbias[begin, end) += column sums. The block's sums live in `sums`.
void SumColumns(const BiasGradArgs& args, int64_t begin, int64_t end, float* sums) {
  float* const dbias = args.dbias.As<float>() + begin;
  const int64_t num_cols = end - begin;
  RowReader dy;
  for (int64_t first = 0; first < args.num_rows; first += kSumBlockRows) {
    const int64_t last = std::min(args.num_rows, first + kSumBlockRows);
    std::fill(sums, sums + num_cols, 0.0F);
    for (int64_t row = first; row < last; ++row) {
      AddInto(dy.Read(args.dy.At(row * args.stride + begin), num_cols), sums, num_cols);
    }
    AddInto(sums, dbias, num_cols);
  }
}

}  // namespace

void CpuBackend::DoResidualAdd(const ResidualAddArgs& args) {
  RowReader bias_reader;
  const float* const bias = bias_reader.Read(args.bias, args.width);
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    RowReader x_reader, residual_reader;
    RowWriter writer;
    std::optional<DroppedBranch> branch;
    if (args.dropout.probability > 0) branch.emplace(args.dropout, args.width);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t offset = row * args.width;
      const float* const x = x_reader.Read(args.x.At(offset), args.width);
      const float* const residual = residual_reader.Read(args.residual.At(offset), args.width);
      float* const y = writer.Open(args.y.At(offset), args.width);
      if (branch) {
        AddRow(branch->Row(row, x, bias), residual, y, args.width);
      } else if (bias != nullptr) {
        AddRowAndBias(x, residual, bias, y, args.width);
      } else {
        AddRow(x, residual, y, args.width);
      }
      writer.Store();
    }
  });
}

void CpuBackend::DoBiasGrad(const BiasGradArgs& args) {
  const int64_t grain = std::max(kLineFloats, base::CeilDiv(kElementGrain, args.num_rows));
  float* const sums = shared_scratch_.Get(base::RoundUp(args.width, kLineFloats));
  pool_.ForRanges(args.width, grain, kLineFloats,
                  [&](int64_t begin, int64_t end) { SumColumns(args, begin, end, sums + begin); });
}

void CpuBackend::DoGroupedBiasGrad(const GroupedBiasGradArgs& args) {
  for (const BiasGradArgs& sum : SumsOf(args)) DoBiasGrad(sum);
}

void CpuBackend::DoScale(Array x, int64_t n, float factor) {
  pool_.ForRanges(n, kElementGrain, kLineElements, [&](int64_t begin, int64_t end) {
    RowWriter writer;
    ForChunks(begin, end, [&](int64_t first, int64_t count) {
      float* const values = writer.Load(x.At(first), count);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) values[i] *= factor;
      writer.Store();
    });
  });
}

void CpuBackend::DoAdd(ConstArray x, Array y, int64_t n) {
  pool_.ForRanges(n, kElementGrain, kLineElements, [&](int64_t begin, int64_t end) {
    RowReader reader;
    RowWriter writer;
    ForChunks(begin, end, [&](int64_t first, int64_t count) {
      AddInto(reader.Read(x.At(first), count), writer.Load(y.At(first), count), count);
      writer.Store();
    });
  });
}

void CpuBackend::DoFill(Array x, int64_t n, float value) {
  pool_.ForRanges(n, kElementGrain, kLineElements, [&](int64_t begin, int64_t end) {
    RowWriter writer;
    ForChunks(begin, end, [&](int64_t first, int64_t count) {
      std::fill_n(writer.Open(x.At(first), count), count, value);
      writer.Store();
    });
  });
}

void CpuBackend::DoCast(ConstArray source, Array destination, int64_t n) {
  pool_.ForRanges(n, kElementGrain, kLineElements, [&](int64_t begin, int64_t end) {
    RowReader reader;
    ForChunks(begin, end, [&](int64_t first, int64_t count) {
      StoreFloats(reader.Read(source.At(first), count), destination.At(first), count);
    });
  });
}

void CpuBackend::DoCopyRows(const CopyRowsArgs& args) {
  const int64_t num_rows = args.num_blocks * args.num_rows;
  pool_.ForRanges(num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    RowReader reader;
    for (int64_t row = begin; row < end; ++row) {
      const auto at = [&](const CopyRowsArgs::Strides& strides) {
        return row / args.num_rows * strides.block + row % args.num_rows * strides.row;
      };
      StoreFloats(reader.Read(args.x.At(at(args.x_strides)), args.width),
                  args.y.At(at(args.y_strides)), args.width);
    }
  });
}

void CpuBackend::DoCopy(ConstArray source, Array destination, int64_t n) {
  const int64_t element_bytes = base::SizeBytes(source.dtype);
  pool_.ForRanges(n, kElementGrain, kAlignmentBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(destination.data) + begin * element_bytes,
                static_cast<const char*>(source.data) + begin * element_bytes,
                (end - begin) * element_bytes);
  });
}

}  // namespace tessera::kernels
