#include "tests/cuda_emulation/nccl/reduction.h"

#include <algorithm>

#include "tests/cuda_emulation/number_formats.h"

namespace tessera::cuda_emulation::nccl {
namespace {

// How a type is kept and what it is added in.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value Load(Stored value) { return value; }
  static Stored Store(Value value) { return value; }
};
struct BFloat16 {
  using Stored = uint16_t;
  using Value = float;
  static Value Load(Stored value) { return FromBFloat16(value); }
  static Stored Store(Value value) { return ToBFloat16(value); }
};
struct Float16 {
  using Stored = uint16_t;
  using Value = float;
  static Value Load(Stored value) { return FromFloat16(value); }
  static Stored Store(Value value) { return ToFloat16(value); }
};

template <typename Value>
Value Combine(ncclRedOp_t op, Value x, Value y) {
  switch (op) {
    case ncclProd:
      return static_cast<Value>(x * y);
    case ncclMax:
      return std::max(x, y);
    case ncclMin:
      return std::min(x, y);
    default:
      return static_cast<Value>(x + y);
  }
}

template <typename Number>
void ReduceAs(const std::vector<const void*>& inputs, int64_t count, ncclRedOp_t op,
              bool round_each_step, void* result) {
  using Stored = typename Number::Stored;
  using Value = typename Number::Value;
  constexpr int64_t kBlock = 4096;  // elements: stays in the first cache
  std::vector<Value> sums(static_cast<size_t>(std::min(count, kBlock)));
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    for (size_t input = 0; input < inputs.size(); ++input) {
      const Stored* const values = static_cast<const Stored*>(inputs[input]) + begin;
      for (int64_t i = 0; i < size; ++i) {
        const Value value = Number::Load(values[i]);
        sums[i] = input == 0 ? value : Combine(op, sums[i], value);
        if (round_each_step) sums[i] = Number::Load(Number::Store(sums[i]));
      }
    }
    Stored* const to = static_cast<Stored*>(result) + begin;
    for (int64_t i = 0; i < size; ++i) {
      if (op == ncclAvg) sums[i] /= static_cast<Value>(inputs.size());
      to[i] = Number::Store(sums[i]);
    }
  }
}

}  // namespace

void Reduce(const std::vector<const void*>& inputs, int64_t count, ncclDataType_t type,
            ncclRedOp_t op, bool round_each_step, void* result) {
  const auto reduce = [&](auto number) {
    ReduceAs<decltype(number)>(inputs, count, op, round_each_step, result);
  };
  switch (type) {
    case ncclInt8:
      return reduce(Plain<int8_t>());
    case ncclUint8:
      return reduce(Plain<uint8_t>());
    case ncclInt32:
      return reduce(Plain<int32_t>());
    case ncclUint32:
      return reduce(Plain<uint32_t>());
    case ncclInt64:
      return reduce(Plain<int64_t>());
    case ncclUint64:
      return reduce(Plain<uint64_t>());
    case ncclFloat16:
      return reduce(Float16());
    case ncclFloat32:
      return reduce(Plain<float>());
    case ncclFloat64:
      return reduce(Plain<double>());
    case ncclBfloat16:
      return reduce(BFloat16());
    case ncclNumTypes:
      return;
  }
}

}  // namespace tessera::cuda_emulation::nccl
