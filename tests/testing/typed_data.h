// Arrays of any element type as raw bytes, and their serial reductions: what the communicators are
// held against.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cost_model/base/check.h"
#include "cost_model/base/dtype.h"
#include "cost_model/base/float16.h"
#include "cost_model/base/op.h"
#include "cost_model/base/philox.h"

namespace tessera::testing {

using Bytes = std::vector<std::byte>;

inline Bytes ZeroElements(int64_t count, base::DType dtype) {
  return Bytes(count * SizeBytes(dtype));
}

// Element i of rank r's test input depends on (r, i) alone, and repeats itself at no multiple of
// the parts in which data travel. Floats are mixed in size, so that the order of a sum shows in its
// last bits; integers are large, but the sum of eight fits 64 bits.
inline Bytes TestElements(int rank, int64_t count, base::DType dtype) {
  constexpr int64_t kPeriod = 10'007;
  const base::PhiloxKey key = base::MakePhiloxKey(7, "test input");
  Bytes bytes = ZeroElements(count, dtype);
  for (int64_t i = 0; i < std::min(count, kPeriod); ++i) {
    const auto draw =
        base::Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(rank)}, key);
    const float scale = static_cast<float>(1 << draw[1] % 8) / 16;
    const float value = (static_cast<float>(draw[0] % 4096) / 2048 - 1) * scale;
    const auto put = [&](auto element) {
      std::memcpy(bytes.data() + i * sizeof(element), &element, sizeof(element));
    };
    switch (dtype) {
      case base::DType::kFloat32:
        put(value);
        break;
      case base::DType::kBFloat16:
        put(base::FloatToBFloat16(value));
        break;
      case base::DType::kFloat16:
        put(base::FloatToFloat16(value));
        break;
      case base::DType::kInt32:
        put(static_cast<int32_t>(draw[0]));
        break;
      case base::DType::kInt64:
        put(static_cast<int64_t>(draw[0]) << 20 | draw[1] >> 12);
        break;
      case base::DType::kUInt8:
      case base::DType::kFloat8:
      case base::DType::kFloat4:
        put(static_cast<uint8_t>(draw[0]));
        break;
      case base::DType::kUInt16:
        put(static_cast<uint16_t>(draw[0]));
        break;
    }
  }
  const int64_t period_bytes = kPeriod * SizeBytes(dtype);
  const auto num_bytes = static_cast<int64_t>(bytes.size());
  for (int64_t at = period_bytes; at < num_bytes; at += period_bytes) {
    std::copy_n(bytes.begin(), std::min(period_bytes, num_bytes - at), bytes.begin() + at);
  }
  return bytes;
}

// Element by element in rank order, in an accumulator of type `Sum`.
template <typename Element, typename Sum, typename Load, typename Store>
Bytes ReduceSerially(const std::vector<Bytes>& inputs, base::ReduceOp op, Load load, Store store) {
  Bytes output(inputs[0].size());
  for (size_t at = 0; at < output.size(); at += sizeof(Element)) {
    Sum sum = 0;
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      Element element;
      std::memcpy(&element, inputs[rank].data() + at, sizeof(element));
      const Sum value = load(element);
      if (rank == 0) {
        sum = value;
      } else if (op == base::ReduceOp::kMax) {
        sum = std::max(sum, value);
      } else if (op == base::ReduceOp::kMin) {
        sum = std::min(sum, value);
      } else {
        sum += value;
      }
    }
    if (op == base::ReduceOp::kAvg) sum /= static_cast<Sum>(inputs.size());
    const Element result = store(sum);
    std::memcpy(output.data() + at, &result, sizeof(result));
  }
  return output;
}

inline Bytes ReduceSerially(const std::vector<Bytes>& inputs, base::DType dtype,
                            base::ReduceOp op) {
  const auto same = [](auto value) { return value; };
  switch (dtype) {
    case base::DType::kFloat32:
      return ReduceSerially<float, float>(inputs, op, same, same);
    case base::DType::kBFloat16:
      return ReduceSerially<uint16_t, float>(inputs, op, base::BFloat16ToFloat,
                                             base::FloatToBFloat16);
    case base::DType::kFloat16:
      return ReduceSerially<uint16_t, float>(inputs, op, base::Float16ToFloat,
                                             base::FloatToFloat16);
    case base::DType::kInt32:
      return ReduceSerially<int32_t, int64_t>(inputs, op, same, same);
    case base::DType::kInt64:
      return ReduceSerially<int64_t, int64_t>(inputs, op, same, same);
    case base::DType::kUInt8:
      return ReduceSerially<uint8_t, int64_t>(inputs, op, same, same);
    case base::DType::kUInt16:
    case base::DType::kFloat8:
    case base::DType::kFloat4:
      break;
  }
  base::FailCheck(__FILE__, __LINE__, "reducible dtype", base::ToString(dtype));
}

}  // namespace tessera::testing
