#include "kernels/cuda/cublaslt_matmul.h"

#include <algorithm>
#include <bit>
#include <string>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"

namespace tessera::kernels::cuda {
namespace {

using base::DType;
using base::Epilogue;
using base::MatMulLayout;

// What the library's vectors want of pointers and strides: it asks for no more.
constexpr uint32_t kVectorBytes = 16;
// Alternatives for when an algorithm that was offered does not run after all.
constexpr int kMaxAlgorithms = 8;
// Shapes that are kept: many times those of a model without experts, whose rows change from step to
// step.
constexpr size_t kMaxProducts = 1024;

uint32_t AlignmentBytes(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return std::min(kVectorBytes, uint32_t{1} << std::min(std::countr_zero(address), 8));
}

cudaDataType_t CudaTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
    default:
      base::FailCheck(__FILE__, __LINE__, "type of a matrix product", base::ToString(dtype));
  }
}

cublasLtEpilogue_t CublasEpilogueOf(Epilogue epilogue, bool has_bias) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kBiasGelu:
      return has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kGeluGrad:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  base::FailCheck(__FILE__, __LINE__, "epilogue", static_cast<int>(epilogue));
}

// Whether the library may be asked for the epilogue: bias and aux have the result's type, begin at
// a multiple of 16 bytes, and rows of an aux of 8 elements.
bool CanFuse(const MatMulArgs& args) {
  const auto fits = [&](ConstArray array) {
    return !array || (array.dtype == args.c.dtype && AlignmentBytes(array.data) == kVectorBytes);
  };
  if (!fits(args.bias) || !fits(args.aux)) return false;
  constexpr int64_t kAuxUnit = 8;
  return !args.aux || (AlignmentBytes(args.c.data) == kVectorBytes && args.n % kAuxUnit == 0 &&
                       args.ldc % kAuxUnit == 0);
}

const char* NameOf(MatMulLayout layout) {
  switch (layout) {
    case MatMulLayout::kNN:
      return "NN";
    case MatMulLayout::kNT:
      return "NT";
    case MatMulLayout::kTN:
      return "TN";
  }
  return "?";
}

}  // namespace

void CublasLtMatMul::set_workspace(const CublasWorkspace& workspace) {
  workspace_ = workspace;
  products_.clear();  // their algorithms were chosen for another
}

bool CublasLtMatMul::Run(const MatMulArgs& args, cudaStream_t stream) {
  TESSERA_CHECK(args.a.dtype == args.b.dtype, "operands of ", base::ToString(args.a.dtype), " and ",
                base::ToString(args.b.dtype));
  TESSERA_CHECK(args.c.dtype == args.a.dtype || args.c.dtype == DType::kFloat32, "a result of ",
                base::ToString(args.c.dtype));
  if (args.epilogue != Epilogue::kNone && CanFuse(args)) {
    const Shape fused = ShapeOf(args, /*with_epilogue=*/true);
    if (TryRun(fused, ProductOf(fused, args), args, stream)) return true;
  }
  const Shape shape = ShapeOf(args, /*with_epilogue=*/false);
  Product& product = ProductOf(shape, args);
  if (!TryRun(shape, product, args, stream)) {
    throw base::SystemError(base::Concat("cublasLtMatmul: ", cublasLtGetStatusName(product.status),
                                         ", ", cublasLtGetStatusString(product.status),
                                         "; no algorithm of ", product.algorithms.size(), " takes ",
                                         ToString(shape)));
  }
  return args.epilogue == Epilogue::kNone;
}

CublasLtMatMul::Shape CublasLtMatMul::ShapeOf(const MatMulArgs& args, bool with_epilogue) {
  return {.m = args.m,
          .n = args.n,
          .k = args.k,
          .lda = args.lda,
          .ldb = args.ldb,
          .ldc = args.ldc,
          .layout = args.layout,
          .operand_type = args.a.dtype,
          .result_type = args.c.dtype,
          .epilogue = with_epilogue ? args.epilogue : Epilogue::kNone,
          .has_bias = with_epilogue && args.bias,
          .a_alignment_bytes = AlignmentBytes(args.a.data),
          .b_alignment_bytes = AlignmentBytes(args.b.data),
          .c_alignment_bytes = AlignmentBytes(args.c.data)};
}

std::string CublasLtMatMul::ToString(const Shape& shape) {
  return base::Concat("m ", shape.m, ", n ", shape.n, ", k ", shape.k, ", lda ", shape.lda,
                      ", ldb ", shape.ldb, ", ldc ", shape.ldc, ", ", NameOf(shape.layout), ", ",
                      base::ToString(shape.operand_type), " to ", base::ToString(shape.result_type),
                      ", pointers aligned to ", shape.a_alignment_bytes, ", ",
                      shape.b_alignment_bytes, " and ", shape.c_alignment_bytes, " bytes");
}

CublasLtMatMul::Product& CublasLtMatMul::ProductOf(const Shape& shape, const MatMulArgs& args) {
  const auto found = products_.find(shape);
  if (found != products_.end()) return found->second;
  if (products_.size() == kMaxProducts) products_.clear();
  const bool is_fp32 = shape.operand_type == DType::kFloat32;
  Product product = {.description =
                         MakeMatMulDescription(allow_tf32_ && is_fp32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                      : CUBLAS_COMPUTE_32F)};
  // Our b comes first: see the top of the header.
  const bool is_a_transposed = shape.layout == MatMulLayout::kTN;
  const bool is_b_transposed = shape.layout == MatMulLayout::kNT;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    SetAttribute(product.description, attribute, value);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA,
      static_cast<int32_t>(is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_TRANSB,
      static_cast<int32_t>(is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE,
      static_cast<uint32_t>(CublasEpilogueOf(shape.epilogue, shape.has_bias)));
  // The choice of an algorithm depends on these pointers' alignment.
  product.has_bias = shape.has_bias;
  product.has_aux = shape.epilogue == Epilogue::kBiasGelu || shape.epilogue == Epilogue::kGeluGrad;
  if (product.has_bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias.data);
  if (product.has_aux) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.aux.data);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.ldc);
  }
  const cudaDataType_t type = CudaTypeOf(shape.operand_type);
  const auto layout = [&](bool is_transposed, int64_t rows, int64_t cols, int64_t stride) {
    return is_transposed ? MakeMatrixLayout(type, rows, cols, stride)
                         : MakeMatrixLayout(type, cols, rows, stride);
  };
  product.a = layout(is_a_transposed, shape.m, shape.k, shape.lda);
  product.b = layout(is_b_transposed, shape.k, shape.n, shape.ldb);
  product.c = MakeMatrixLayout(CudaTypeOf(shape.result_type), shape.n, shape.m, shape.ldc);
  ChooseAlgorithms(shape, product);
  return products_.emplace(shape, std::move(product)).first->second;
}

void CublasLtMatMul::ChooseAlgorithms(const Shape& shape, Product& product) const {
  const MatMulPreference preference = MakeMatMulPreference();
  SetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
               static_cast<uint64_t>(workspace_.num_bytes));
  SetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.b_alignment_bytes);
  SetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.a_alignment_bytes);
  SetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.c_alignment_bytes);
  SetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.c_alignment_bytes);
  cublasLtMatmulHeuristicResult_t results[kMaxAlgorithms];
  int num_results = 0;
  product.status = cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), product.description.get(), product.b.get(), product.a.get(), product.c.get(),
      product.c.get(), preference.get(), kMaxAlgorithms, results, &num_results);
  if (product.status == CUBLAS_STATUS_NOT_SUPPORTED) return;
  CheckCublas(product.status,
              base::Concat("cublasLtMatmulAlgoGetHeuristic of ", ToString(shape)).c_str());
  for (int i = 0; i < num_results; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS) product.algorithms.push_back(results[i].algo);
  }
  if (product.algorithms.empty()) product.status = CUBLAS_STATUS_NOT_SUPPORTED;
}

bool CublasLtMatMul::TryRun(const Shape& shape, Product& product, const MatMulArgs& args,
                            cudaStream_t stream) const {
  const float alpha = 1;
  const float beta = args.accumulate ? 1 : 0;
  if (product.has_bias) {
    SetAttribute(product.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias.data);
  }
  if (product.has_aux) {
    SetAttribute(product.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.aux.data);
  }
  for (; product.chosen < product.algorithms.size(); ++product.chosen) {
    product.status = cublasLtMatmul(handle_.get(), product.description.get(), &alpha, args.b.data,
                                    product.b.get(), args.a.data, product.a.get(), &beta,
                                    args.c.data, product.c.get(), args.c.data, product.c.get(),
                                    &product.algorithms[product.chosen], workspace_.memory,
                                    static_cast<size_t>(workspace_.num_bytes), stream);
    if (product.status == CUBLAS_STATUS_SUCCESS) return true;
    // Another algorithm helps against nothing else.
    if (product.status != CUBLAS_STATUS_NOT_SUPPORTED) {
      CheckCublas(product.status, base::Concat("cublasLtMatmul of ", ToString(shape)).c_str());
    }
  }
  return false;
}

}  // namespace tessera::kernels::cuda
