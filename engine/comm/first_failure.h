// The exceptions that the ranks of one process have thrown. An AbortedError is what another rank's
// failure leads to: it counts only when there is nothing else.
#pragma once

#include <exception>
#include <mutex>

namespace tessera::engine {

class FirstFailure {
 public:
  void Add(std::exception_ptr failure, bool is_consequence) {
    const std::lock_guard lock(mutex_);
    std::exception_ptr& first = is_consequence ? consequence_ : cause_;
    if (first == nullptr) first = failure;
  }
  void RethrowIfAny() {
    const std::lock_guard lock(mutex_);
    if (cause_ != nullptr) std::rethrow_exception(cause_);
    if (consequence_ != nullptr) std::rethrow_exception(consequence_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::exception_ptr consequence_;
};

}  // namespace tessera::engine
