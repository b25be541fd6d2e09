// A product in a stream of the emulation.
#pragma once

#include <memory>
#include <string>

#include "tests/cuda_emulation/cublaslt/algorithm.h"
#include "tests/cuda_emulation/cublaslt/matmul_rules.h"
#include "tests/cuda_emulation/runtime/stream_queue.h"

namespace tessera::cuda_emulation::cublaslt {

struct MatmulCall {
  MatmulProblem problem;
  MatmulPointers pointers;
  Algorithm algorithm;
  float alpha;
  float beta;
  void* workspace;
};

class MatmulOperation final : public StreamOperation {
 public:
  explicit MatmulOperation(const MatmulCall& call) : call_(call) {}

  bool TryRun() override;
  std::string Describe() const override;
  std::unique_ptr<StreamOperation> Clone() const override;

 private:
  MatmulCall call_;
};

}  // namespace tessera::cuda_emulation::cublaslt
