// What a rank's device spends on one kind of work, by marks in the order of its operations.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace tessera::engine {

struct MarkedSpan {
  size_t begin = 0;  // marks of the backend
  size_t end = 0;
};

class SpanLog {
 public:
  // `backend` must outlive the log.
  explicit SpanLog(kernels::Backend& backend) : backend_(backend) {}

  // Runs `work` between two marks.
  template <typename Work>
  void Run(Work&& work) {
    const size_t begin = backend_.Mark();
    work();
    spans_.push_back({begin, backend_.Mark()});
  }

  // The spans since the last call, ascending.
  std::vector<MarkedSpan> Take() { return std::exchange(spans_, {}); }

 private:
  kernels::Backend& backend_;
  std::vector<MarkedSpan> spans_;
};

}  // namespace tessera::engine
