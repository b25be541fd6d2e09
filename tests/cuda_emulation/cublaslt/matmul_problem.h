// A product as its descriptors state it: shapes and types without pointers to data.
#pragma once

#include <cstdint>

#include "tests/cuda_emulation/cublaslt/descriptors.h"

namespace tessera::cuda_emulation::cublaslt {

struct MatmulProblem {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;

  int64_t m() const { return static_cast<int64_t>(d.rows); }
  int64_t n() const { return static_cast<int64_t>(d.cols); }
  int64_t k() const {
    return static_cast<int64_t>(desc.transpose_a == CUBLAS_OP_N ? a.cols : a.rows);
  }
  NumberFormat FormatOfD() const { return *FormatOf(d.type); }
};

inline bool AddsBias(uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

inline bool StoresGeluInput(uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

inline bool UsesAux(uint32_t epilogue) {
  return StoresGeluInput(epilogue) || epilogue == CUBLASLT_EPILOGUE_DGELU;
}

// Elements from a matrix's first to its last, all batches.
inline int64_t SpanElements(const cublasLtMatrixLayoutOpaque_t& layout) {
  return (layout.batch_count - 1) * layout.batch_stride +
         (static_cast<int64_t>(layout.cols) - 1) * layout.ld + static_cast<int64_t>(layout.rows);
}

}  // namespace tessera::cuda_emulation::cublaslt
