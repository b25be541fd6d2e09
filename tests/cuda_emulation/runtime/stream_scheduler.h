// Decides which operation of which stream runs next, and on which thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda_emulation/runtime/stream.h"

namespace tessera::cuda_emulation {

class StreamScheduler {
 public:
  // That of the process.
  static StreamScheduler& Get();

  StreamScheduler();

  std::mutex& mutex() { return mutex_; }
  // REQUIRES: the lock.
  std::set<cudaStream_t>& streams() { return streams_; }

  void SetOrder(StreamOrder order, uint64_t seed);
  void SetTimeout(double timeout_s);

  cudaError_t Enqueue(cudaStream_t stream, std::unique_ptr<StreamOperation> operation);
  void RunUntil(const StreamSet& set, const std::function<bool()>& is_done, const char* call);
  void RunOne(const StreamSet& set);
  void Notify();
  void DropAll();

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  using Operations = std::vector<std::unique_ptr<StreamOperation>>;

  cudaStream_t Choose(const StreamSet& set);
  cudaStream_t ChooseAmong(const std::vector<cudaStream_t>& runnable);
  bool RunHead(Lock& lock, cudaStream_t stream);
  void FailAndClear(int device, const std::string& fault, Operations* dropped);
  bool SleepUntilProgress(Lock& lock);
  void GiveUp(Lock& lock, const StreamSet& set, const char* call);
  std::string DescribeHeads() const;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::set<cudaStream_t> streams_;
  StreamOrder order_ = StreamOrder::kEager;
  uint64_t seed_ = 0;
  uint64_t random_ = 0;
  double timeout_s_ = 60;
  uint64_t num_issued_ = 0;
  uint64_t progress_ = 0;
};

}  // namespace tessera::cuda_emulation
