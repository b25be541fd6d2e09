// Algorithms of the cuBLASLt double: what the heuristic hands out and cublasLtMatmul takes back.
//
// kVector needs whole 16-byte vectors everywhere; kSplitK too, and sums pieces of k through the
// workspace, so that its results differ in their last bits; kScalar takes any alignment, without
// fused epilogues but the bias.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/cuda_emulation/cublaslt/matmul_problem.h"

namespace tessera::cuda_emulation::cublaslt {

enum class AlgorithmKind : uint64_t { kVector = 1, kSplitK = 2, kScalar = 3 };

struct Algorithm {
  AlgorithmKind kind;
  int64_t num_splits;  // of k
  uint64_t workspace_bytes;
  uint32_t alignment_bytes[4];  // promised for A, B, C, D
};

// The algorithms for a product that CheckProblem accepts, the fastest first; the preferred kind
// before it where it applies.
std::vector<Algorithm> FindAlgorithms(const MatmulProblem& problem,
                                      const cublasLtMatmulPreferenceOpaque_t& preference);

// What the heuristic offers first, for tests that hold for every algorithm; kVector at the start.
// The environment sets the start too: TESSERA_CUBLASLT_ALGORITHM=vector|splitk|scalar.
void PreferAlgorithm(AlgorithmKind kind);

cublasLtMatmulAlgo_t Encode(const Algorithm& algorithm, const MatmulProblem& problem);

// Empty where `algo` did not come from Encode, or came for another problem (bias and aux pointers
// apart). `reason` says which.
std::optional<Algorithm> Decode(const cublasLtMatmulAlgo_t& algo, const MatmulProblem& problem,
                                const char** reason);

}  // namespace tessera::cuda_emulation::cublaslt
