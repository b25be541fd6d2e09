#include "tests/cuda_emulation/cublaslt/algorithm.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "tests/cuda_emulation/cublaslt/matmul_rules.h"

namespace tessera::cuda_emulation::cublaslt {
namespace {

constexpr int64_t kMinSplitK = 32;  // elements of k in a piece
constexpr int64_t kNumSplits = 3;

AlgorithmKind KindFromEnvironment() {
  const char* const value = std::getenv("TESSERA_CUBLASLT_ALGORITHM");
  if (value != nullptr && std::string_view(value) == "splitk") return AlgorithmKind::kSplitK;
  if (value != nullptr && std::string_view(value) == "scalar") return AlgorithmKind::kScalar;
  return AlgorithmKind::kVector;
}

std::atomic<AlgorithmKind>& PreferredKind() {
  static std::atomic<AlgorithmKind> kind = KindFromEnvironment();
  return kind;
}

bool IsWholeVectors(const cublasLtMatrixLayoutOpaque_t& layout, uint32_t promised_bytes) {
  const int64_t size_bytes = SizeBytes(*FormatOf(layout.type));
  return promised_bytes % kVectorBytes == 0 &&
         (layout.cols == 1 || layout.ld * size_bytes % kVectorBytes == 0) &&
         (layout.batch_count == 1 || layout.batch_stride * size_bytes % kVectorBytes == 0);
}

uint64_t Mix(uint64_t hash, uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) {  // FNV-1a
    hash = (hash ^ ((value >> (8 * byte)) & 0xFF)) * 0x100000001B3;
  }
  return hash;
}

uint64_t Fingerprint(const MatmulProblem& problem) {
  const auto& desc = problem.desc;
  uint64_t hash = 0xCBF29CE484222325;
  for (const int64_t value :
       {static_cast<int64_t>(desc.compute_type), static_cast<int64_t>(desc.scale_type),
        static_cast<int64_t>(desc.transpose_a), static_cast<int64_t>(desc.transpose_b),
        static_cast<int64_t>(desc.epilogue), static_cast<int64_t>(desc.bias_type),
        static_cast<int64_t>(desc.aux_type), desc.aux_ld}) {
    hash = Mix(hash, static_cast<uint64_t>(value));
  }
  for (const auto* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    hash = Mix(hash, static_cast<uint64_t>(layout->type));
    hash = Mix(hash, layout->rows);
    hash = Mix(hash, layout->cols);
    hash = Mix(hash, static_cast<uint64_t>(layout->ld));
    hash = Mix(hash, static_cast<uint64_t>(layout->batch_count));
    hash = Mix(hash, static_cast<uint64_t>(layout->batch_stride));
  }
  return hash;
}

uint64_t Checksum(const cublasLtMatmulAlgo_t& algo) {
  uint64_t hash = 1;
  for (int i = 0; i < 7; ++i) hash = Mix(hash, algo.data[i]);
  return hash;
}

}  // namespace

std::vector<Algorithm> FindAlgorithms(const MatmulProblem& problem,
                                      const cublasLtMatmulPreferenceOpaque_t& preference) {
  const auto& promised = preference.min_alignment_bytes;
  const bool whole_vectors =
      IsWholeVectors(problem.a, promised[0]) && IsWholeVectors(problem.b, promised[1]) &&
      IsWholeVectors(problem.c, promised[2]) && IsWholeVectors(problem.d, promised[3]);
  Algorithm algorithm{AlgorithmKind::kVector, 1, 0, {}};
  std::copy(std::begin(promised), std::end(promised), algorithm.alignment_bytes);
  std::vector<Algorithm> found;
  if (whole_vectors) found.push_back(algorithm);
  const uint64_t partial_bytes = static_cast<uint64_t>(problem.m() * problem.n()) * sizeof(float);
  const uint64_t workspace_bytes = static_cast<uint64_t>(kNumSplits) * partial_bytes;
  if (whole_vectors && problem.d.batch_count == 1 && problem.k() >= kNumSplits * kMinSplitK &&
      workspace_bytes <= preference.max_workspace_bytes) {
    found.push_back(algorithm);
    found.back().kind = AlgorithmKind::kSplitK;
    found.back().num_splits = kNumSplits;
    found.back().workspace_bytes = workspace_bytes;
  }
  const uint32_t epilogue = problem.desc.epilogue;
  if (epilogue == CUBLASLT_EPILOGUE_DEFAULT || epilogue == CUBLASLT_EPILOGUE_BIAS) {
    found.push_back(algorithm);
    found.back().kind = AlgorithmKind::kScalar;
  }
  std::stable_partition(found.begin(), found.end(), [](const Algorithm& candidate) {
    return candidate.kind == PreferredKind();
  });
  return found;
}

void PreferAlgorithm(AlgorithmKind kind) { PreferredKind() = kind; }

cublasLtMatmulAlgo_t Encode(const Algorithm& algorithm, const MatmulProblem& problem) {
  cublasLtMatmulAlgo_t algo = {};
  algo.data[0] = static_cast<uint64_t>(algorithm.kind);
  algo.data[1] = static_cast<uint64_t>(algorithm.num_splits);
  algo.data[2] = algorithm.workspace_bytes;
  algo.data[3] = algorithm.alignment_bytes[0] | uint64_t{algorithm.alignment_bytes[1]} << 32;
  algo.data[4] = algorithm.alignment_bytes[2] | uint64_t{algorithm.alignment_bytes[3]} << 32;
  algo.data[5] = Fingerprint(problem);
  algo.data[7] = Checksum(algo);
  return algo;
}

std::optional<Algorithm> Decode(const cublasLtMatmulAlgo_t& algo, const MatmulProblem& problem,
                                const char** reason) {
  if (algo.data[7] != Checksum(algo)) {
    *reason = "the algorithm does not come from the heuristic";
    return std::nullopt;
  }
  if (algo.data[5] != Fingerprint(problem)) {
    *reason = "the algorithm was chosen for other descriptors or layouts";
    return std::nullopt;
  }
  return Algorithm{
      static_cast<AlgorithmKind>(algo.data[0]),
      static_cast<int64_t>(algo.data[1]),
      algo.data[2],
      {static_cast<uint32_t>(algo.data[3]), static_cast<uint32_t>(algo.data[3] >> 32),
       static_cast<uint32_t>(algo.data[4]), static_cast<uint32_t>(algo.data[4] >> 32)}};
}

}  // namespace tessera::cuda_emulation::cublaslt
