// Stands in for CUDA's header of this name where CUDA sources are compiled for the host: wmma on
// tiles of 16x16x16 of fp16 or bf16, summed in fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "tests/cuda_emulation/device/matrix_product.h"
#include "tests/cuda_emulation/device/meeting.h"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment;

namespace internal {

using tessera::cuda_emulation::kTile;
using Place = tessera::cuda_emulation::Place;

constexpr int kElementsPerLane =
    kTile * kTile / static_cast<int>(tessera::cuda_emulation::kWarpSize);

// The element of the tile, counted along rows, that a lane holds at index `element`. A permutation
// that no GPU uses and that differs between operands: code must not know it.
template <class Use>
constexpr int PositionOf(unsigned lane, int element) {
  constexpr int kFactor = std::is_same_v<Use, accumulator> ? 37
                          : std::is_same_v<Use, matrix_a>  ? 101
                                                           : 75;  // odd: a bijection modulo 256
  return ((element * 32 + static_cast<int>(lane)) * kFactor) & (kTile * kTile - 1);
}

// Where the element at a position of the tile lies in a matrix with `stride` elements a row
// (row-major) or a column (column-major).
constexpr int64_t OffsetOf(int position, unsigned stride, bool is_row_major) {
  const int row = position / kTile;
  const int column = position % kTile;
  return is_row_major ? int64_t{row} * stride + column : int64_t{column} * stride + row;
}

template <class T>
void CheckAddress(const T* address, unsigned stride, const char* what, Place place) {
  if (reinterpret_cast<uintptr_t>(address) % 32 != 0) {
    tessera::cuda_emulation::FailKernel(std::string(what) + ": address not aligned to 32 bytes",
                                        place);
  }
  if (stride * sizeof(T) % 16 != 0) {
    tessera::cuda_emulation::FailKernel(
        std::string(what) + ": leading dimension is no multiple of 16 bytes", place);
  }
}

template <class T>
struct Storage {
  using element_type = T;
  using storage_element_type = T;
  static constexpr int num_elements = kElementsPerLane;
  T x[num_elements];
};

}  // namespace internal

template <class T, class Layout>
class fragment<matrix_a, 16, 16, 16, T, Layout> : public internal::Storage<T> {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
};
template <class T, class Layout>
class fragment<matrix_b, 16, 16, 16, T, Layout> : public internal::Storage<T> {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
};
template <>
class fragment<accumulator, 16, 16, 16, float> : public internal::Storage<float> {};

template <class Use, class T, class Layout>
void fill_fragment(fragment<Use, 16, 16, 16, T, Layout>& to, std::type_identity_t<T> value) {
  for (T& element : to.x) element = value;
}

// Loads and stores do not wait for the other lanes, as the programming model leaves open: what
// another lane wrote needs a barrier before it is loaded.
template <class Use, class T, class Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& to, const T* from, unsigned stride,
                      internal::Place place = internal::Place::current()) {
  internal::CheckAddress(from, stride, "load_matrix_sync", place);
  constexpr bool kIsRowMajor = std::is_same_v<Layout, row_major>;
  static_assert(kIsRowMajor || std::is_same_v<Layout, col_major>);
  for (int e = 0; e < to.num_elements; ++e) {
    const int position = internal::PositionOf<Use>(tessera::cuda_emulation::current_lane, e);
    to.x[e] = from[internal::OffsetOf(position, stride, kIsRowMajor)];
  }
}
inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& to, const float* from,
                             unsigned stride, layout_t layout,
                             internal::Place place = internal::Place::current()) {
  internal::CheckAddress(from, stride, "load_matrix_sync", place);
  for (int e = 0; e < to.num_elements; ++e) {
    const int position =
        internal::PositionOf<accumulator>(tessera::cuda_emulation::current_lane, e);
    to.x[e] = from[internal::OffsetOf(position, stride, layout == mem_row_major)];
  }
}
inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& from,
                              unsigned stride, layout_t layout,
                              internal::Place place = internal::Place::current()) {
  internal::CheckAddress(to, stride, "store_matrix_sync", place);
  for (int e = 0; e < from.num_elements; ++e) {
    const int position =
        internal::PositionOf<accumulator>(tessera::cuda_emulation::current_lane, e);
    to[internal::OffsetOf(position, stride, layout == mem_row_major)] = from.x[e];
  }
}

namespace internal {

template <class A, class B, class C>
struct Operands {
  const A* a;
  const B* b;
  const C* c;
  C* d;
};

// d = a b + c over the fragments of all lanes, which wait meanwhile.
template <class A, class B, class C>
void MultiplyTiles(uint64_t* values) {
  const auto operands_of = [values](unsigned lane) -> const Operands<A, B, C>& {
    return *reinterpret_cast<const Operands<A, B, C>*>(values[lane]);
  };
  alignas(64) float a[kTile * kTile];
  alignas(64) float b[kTile * kTile];
  alignas(64) float c[kTile * kTile];
  for (unsigned lane = 0; lane < tessera::cuda_emulation::kWarpSize; ++lane) {
    const auto& operands = operands_of(lane);
    for (int e = 0; e < kElementsPerLane; ++e) {
      a[PositionOf<matrix_a>(lane, e)] = static_cast<float>(operands.a->x[e]);
      b[PositionOf<matrix_b>(lane, e)] = static_cast<float>(operands.b->x[e]);
      c[PositionOf<accumulator>(lane, e)] = operands.c->x[e];
    }
  }
  tessera::cuda_emulation::AddTileProduct(a, b, c);
  for (unsigned lane = 0; lane < tessera::cuda_emulation::kWarpSize; ++lane) {
    const auto& operands = operands_of(lane);
    for (int e = 0; e < kElementsPerLane; ++e)
      operands.d->x[e] = c[PositionOf<accumulator>(lane, e)];
  }
}

}  // namespace internal

template <class T, class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d,
              const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
              const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b,
              const fragment<accumulator, 16, 16, 16, float>& c,
              internal::Place place = internal::Place::current()) {
  using A = fragment<matrix_a, 16, 16, 16, T, LayoutA>;
  using B = fragment<matrix_b, 16, 16, 16, T, LayoutB>;
  using C = fragment<accumulator, 16, 16, 16, float>;
  if (tessera::cuda_emulation::LiveLanes() != tessera::cuda_emulation::kAllLanes) {
    tessera::cuda_emulation::FailKernel("mma_sync: needs all 32 lanes of the warp", place);
  }
  const internal::Operands<A, B, C> operands{&a, &b, &c, &d};
  tessera::cuda_emulation::MeetLanes(tessera::cuda_emulation::kAllLanes,
                                     reinterpret_cast<uint64_t>(&operands), "mma_sync", place,
                                     &internal::MultiplyTiles<A, B, C>);
}

}  // namespace nvcuda::wmma
