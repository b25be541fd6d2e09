#pragma once

#include <cstdint>
#include <string_view>

#include "cost_model/base/check.h"

namespace tessera::base {

enum class DType : uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kFloat8,
  kFloat4
};

constexpr int64_t SizeBytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
    case DType::kUInt16:
      return 2;
    case DType::kInt64:
      return 8;
    case DType::kUInt8:
    case DType::kFloat8:
    case DType::kFloat4:  // half a byte, rounded up
      return 1;
  }
  return 0;
}

constexpr std::string_view ToString(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat16:
      return "fp16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUInt8:
      return "uint8";
    case DType::kUInt16:
      return "uint16";
    case DType::kFloat8:
      return "fp8";
    case DType::kFloat4:
      return "fp4";
  }
  return "?";
}

}  // namespace tessera::base
