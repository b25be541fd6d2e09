// Bytes of the numbers whose type no choice of precision changes.
#pragma once

namespace tessera::cost_model {

inline constexpr double kFp32Bytes = 4;
inline constexpr double kMaskBytes = 1;  // an element of a dropout mask

}  // namespace tessera::cost_model
