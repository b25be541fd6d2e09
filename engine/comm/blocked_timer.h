// Adds the seconds it lives to a total: what a communicator spends in its calls and waits.
#pragma once

#include <chrono>

namespace tessera::engine {

class BlockedTimer {
 public:
  explicit BlockedTimer(double& total_s) : total_s_(total_s) {}
  ~BlockedTimer() { total_s_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  BlockedTimer(const BlockedTimer&) = delete;
  BlockedTimer& operator=(const BlockedTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& total_s_;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace tessera::engine
