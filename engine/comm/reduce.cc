#include "engine/comm/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "cost_model/base/check.h"
#include "cost_model/base/float16.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;

// Elements that are accumulated at a time: 8 KiB of fp32, which stay in the first-level cache
// between the additions.
constexpr int64_t kBlockElements = 2048;

// How an element lies in memory and in which type it is accumulated.
template <typename T, typename AccumulatorT>
struct Plain {
  using Stored = T;
  using Accumulator = AccumulatorT;
  static Accumulator Load(T value) { return static_cast<Accumulator>(value); }
  static T Store(Accumulator value) { return static_cast<T>(value); }
};
struct BFloat16 {
  using Stored = uint16_t;
  using Accumulator = float;
  static float Load(uint16_t bits) { return base::BFloat16ToFloat(bits); }
  static uint16_t Store(float value) { return base::FloatToBFloat16(value); }
};
struct Float16 {
  using Stored = uint16_t;
  using Accumulator = float;
  static float Load(uint16_t bits) { return base::Float16ToFloat(bits); }
  static uint16_t Store(float value) { return base::FloatToFloat16(value); }
};

template <typename T>
bool IsNan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

template <ReduceOp op, typename T>
T Combine(T a, T b) {
  if constexpr (op == ReduceOp::kMax) {
    return a < b || IsNan(b) ? b : a;
  } else if constexpr (op == ReduceOp::kMin) {
    return b < a || IsNan(b) ? b : a;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    // Unsigned, because a signed sum must not overflow.
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename Element, ReduceOp op>
void Reduce(std::span<const void* const> inputs, int64_t input_offset,
            std::span<void* const> outputs, int64_t output_offset, int64_t count) {
  using Stored = typename Element::Stored;
  using Accumulator = typename Element::Accumulator;
  alignas(64) std::array<Accumulator, kBlockElements> sum;
  alignas(64) std::array<Stored, kBlockElements> result;
  for (int64_t begin = 0; begin < count; begin += kBlockElements) {
    const int64_t n = std::min(kBlockElements, count - begin);
    const auto input = [&](size_t k) {
      return static_cast<const Stored*>(inputs[k]) + input_offset + begin;
    };
    const Stored* first = input(0);
    for (int64_t i = 0; i < n; ++i) sum[i] = Element::Load(first[i]);
    for (size_t k = 1; k < inputs.size(); ++k) {
      const Stored* x = input(k);
      for (int64_t i = 0; i < n; ++i) sum[i] = Combine<op>(sum[i], Element::Load(x[i]));
    }
    if constexpr (op == ReduceOp::kAvg) {
      const Accumulator num_inputs = static_cast<Accumulator>(inputs.size());
      for (int64_t i = 0; i < n; ++i) sum[i] /= num_inputs;
    }
    for (int64_t i = 0; i < n; ++i) result[i] = Element::Store(sum[i]);
    for (void* output : outputs) {
      std::memcpy(static_cast<Stored*>(output) + output_offset + begin, result.data(),
                  n * sizeof(Stored));
    }
  }
}

template <typename Element>
void Reduce(std::span<const void* const> inputs, int64_t input_offset,
            std::span<void* const> outputs, int64_t output_offset, int64_t count, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return Reduce<Element, ReduceOp::kSum>(inputs, input_offset, outputs, output_offset, count);
    case ReduceOp::kMax:
      return Reduce<Element, ReduceOp::kMax>(inputs, input_offset, outputs, output_offset, count);
    case ReduceOp::kMin:
      return Reduce<Element, ReduceOp::kMin>(inputs, input_offset, outputs, output_offset, count);
    case ReduceOp::kAvg:
      return Reduce<Element, ReduceOp::kAvg>(inputs, input_offset, outputs, output_offset, count);
  }
}

}  // namespace

void ReduceElements(std::span<const void* const> inputs, int64_t input_offset,
                    std::span<void* const> outputs, int64_t output_offset, int64_t count,
                    DType dtype, ReduceOp op) {
  const auto reduce = [&]<typename Element>() {
    Reduce<Element>(inputs, input_offset, outputs, output_offset, count, op);
  };
  switch (dtype) {
    case DType::kFloat32:
      return reduce.operator()<Plain<float, float>>();
    case DType::kBFloat16:
      return reduce.operator()<BFloat16>();
    case DType::kFloat16:
      return reduce.operator()<Float16>();
    case DType::kInt32:
      return reduce.operator()<Plain<int32_t, int64_t>>();
    case DType::kInt64:
      return reduce.operator()<Plain<int64_t, int64_t>>();
    case DType::kUInt8:
      return reduce.operator()<Plain<uint8_t, int32_t>>();
    case DType::kUInt16:
    case DType::kFloat8:
    case DType::kFloat4:
      break;
  }
  base::FailCheck(__FILE__, __LINE__, "reducible dtype", base::ToString(dtype));
}

}  // namespace tessera::engine
