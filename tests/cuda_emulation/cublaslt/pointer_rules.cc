// The rules about the memory of one call.
#include <algorithm>
#include <vector>

#include "tests/cuda_emulation/cublaslt/matmul_rules.h"
#include "tests/cuda_emulation/runtime/device_memory.h"

namespace tessera::cuda_emulation::cublaslt {
namespace {

// A matrix or vector in memory: columns of `row_bytes`, `ld_bytes` apart; `ld_bytes` is 0 where
// batches lie otherwise.
struct Region {
  const char* name;
  const void* pointer;
  int64_t span_bytes;
  int64_t row_bytes;
  int64_t ld_bytes;
  bool is_written;

  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(pointer); }
};

Region RegionOf(const char* name, const void* pointer, const cublasLtMatrixLayoutOpaque_t& layout,
                bool is_written) {
  const int64_t size_bytes = SizeBytes(*FormatOf(layout.type));
  const auto rows = static_cast<int64_t>(layout.rows);
  const int64_t side_by_side = (layout.batch_count - 1) * layout.batch_stride + rows;
  Region region{name,
                pointer,
                SpanElements(layout) * size_bytes,
                rows * size_bytes,
                layout.ld * size_bytes,
                is_written};
  if (side_by_side <= layout.ld) {  // as heads of attention
    region.row_bytes = side_by_side * size_bytes;
  } else if (layout.batch_stride % layout.ld != 0) {
    region.ld_bytes = 0;
  }
  return region;
}

// Two slices of the columns of one matrix share a span and no element.
bool Overlap(const Region& x, const Region& y) {
  const bool apart = x.begin() + static_cast<uintptr_t>(x.span_bytes) <= y.begin() ||
                     y.begin() + static_cast<uintptr_t>(y.span_bytes) <= x.begin();
  if (apart) return false;
  if (x.ld_bytes != y.ld_bytes || x.ld_bytes == 0) return true;
  const int64_t ld_bytes = x.ld_bytes;
  const auto distance =
      static_cast<int64_t>(x.begin() < y.begin() ? y.begin() - x.begin() : x.begin() - y.begin());
  const Region& first = x.begin() < y.begin() ? x : y;
  const Region& second = x.begin() < y.begin() ? y : x;
  const int64_t offset = distance % ld_bytes;  // of the second's rows in the first's columns
  return offset < first.row_bytes || offset + second.row_bytes > ld_bytes;
}

std::vector<Region> Regions(const MatmulProblem& problem, const MatmulPointers& pointers) {
  const auto& desc = problem.desc;
  std::vector<Region> regions = {RegionOf("A", pointers.a, problem.a, false),
                                 RegionOf("B", pointers.b, problem.b, false),
                                 RegionOf("D", pointers.d, problem.d, true)};
  const int64_t d_bytes = SizeBytes(problem.FormatOfD());
  if (AddsBias(desc.epilogue)) {
    const int64_t bias_bytes = problem.m() * d_bytes;
    regions.push_back({"bias", desc.bias, bias_bytes, bias_bytes, bias_bytes, false});
  }
  if (UsesAux(desc.epilogue)) {
    const int64_t span = ((problem.n() - 1) * desc.aux_ld + problem.m()) * d_bytes;
    regions.push_back({"aux", desc.aux, span, problem.m() * d_bytes, desc.aux_ld * d_bytes,
                       StoresGeluInput(desc.epilogue)});
  }
  return regions;
}

std::optional<Refusal> CheckMemory(const Region& region) {
  const auto num_bytes = static_cast<size_t>(region.span_bytes);
  if (IsDeviceMemory(region.pointer, num_bytes)) return std::nullopt;
  return Refusal{CUBLAS_STATUS_INVALID_VALUE, std::string(region.name) +
                                                  " is not inside one device allocation: " +
                                                  DescribeMemory(region.pointer, num_bytes)};
}

bool SameLayout(const cublasLtMatrixLayoutOpaque_t& x, const cublasLtMatrixLayoutOpaque_t& y) {
  return x.type == y.type && x.rows == y.rows && x.cols == y.cols && x.ld == y.ld &&
         x.batch_count == y.batch_count && x.batch_stride == y.batch_stride;
}

}  // namespace

std::optional<Refusal> CheckPointers(const MatmulProblem& problem, const MatmulPointers& pointers,
                                     const uint32_t (&alignment_bytes)[4]) {
  const void* const matrices[4] = {pointers.a, pointers.b, pointers.c, pointers.d};
  for (int i = 0; i < 4; ++i) {
    if (reinterpret_cast<uintptr_t>(matrices[i]) % alignment_bytes[i] != 0) {
      return Refusal{CUBLAS_STATUS_NOT_SUPPORTED,
                     std::string(1, "ABCD"[i]) + " is not aligned to the " +
                         std::to_string(alignment_bytes[i]) +
                         " bytes that the preference promised to the heuristic"};
    }
  }
  const std::vector<Region> regions = Regions(problem, pointers);
  const Region c = RegionOf("C", pointers.c, problem.c, false);
  if (auto refusal = CheckMemory(c)) return refusal;
  for (const Region& region : regions) {
    if (auto refusal = CheckMemory(region)) return refusal;
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if ((regions[i].is_written || regions[j].is_written) && Overlap(regions[i], regions[j])) {
        return Refusal{CUBLAS_STATUS_INVALID_VALUE,
                       std::string(regions[j].name) + " and " + regions[i].name + " overlap"};
      }
    }
    const bool in_place = std::string_view(regions[i].name) == "D" && pointers.c == pointers.d &&
                          SameLayout(problem.c, problem.d);
    if (regions[i].is_written && !in_place && Overlap(regions[i], c)) {
      return Refusal{CUBLAS_STATUS_INVALID_VALUE,
                     std::string(regions[i].name) + " and C overlap without being the same matrix"};
    }
  }
  return std::nullopt;
}

}  // namespace tessera::cuda_emulation::cublaslt
