// The threads of one CPU backend. The caller is one of them; the others wait for work: they spin
// for a moment, yield for a moment, then sleep, since more ranks than cores may share a machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "cost_model/base/math.h"

namespace tessera::kernels {

class ThreadPool {
 public:
  // REQUIRES: num_threads >= 1. One thread means no pool: everything runs in the caller. Throws
  // std::system_error where the system gives no more threads.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // body(thread, task) once for every task in [0, num_tasks), `thread` in [0, num_threads). Tasks
  // are handed out in ascending order to whichever thread is free. Rethrows the first exception.
  template <typename Body>
  void ForEachTask(int64_t num_tasks, const Body& body) {
    if (num_threads_ == 1 || num_tasks <= 1) {
      for (int64_t task = 0; task < num_tasks; ++task) body(0, task);
      return;
    }
    std::atomic<int64_t> next_task = 0;
    const auto run_tasks = [&](int thread) {
      while (true) {
        const int64_t task = next_task.fetch_add(1, std::memory_order_relaxed);
        if (task >= num_tasks) return;
        body(thread, task);
      }
    };
    RunOnAllThreads([](void* context,
                       int thread) { (*static_cast<const decltype(run_tasks)*>(context))(thread); },
                    const_cast<void*>(static_cast<const void*>(&run_tasks)));
  }

  // body(begin, end) over a partition of [0, n) into ranges of at least `grain` elements whose
  // borders are multiples of `alignment`; in the caller alone when n is no more than one grain.
  template <typename Body>
  void ForRanges(int64_t n, int64_t grain, int64_t alignment, const Body& body) {
    if (n <= grain || num_threads_ == 1) {
      if (n > 0) body(int64_t{0}, n);
      return;
    }
    const int64_t wanted = base::CeilDiv(n, int64_t{kRangesPerThread} * num_threads_);
    const int64_t range = base::RoundUp(std::max(wanted, grain), alignment);
    ForEachTask(base::CeilDiv(n, range),
                [&](int, int64_t task) { body(task * range, std::min(n, (task + 1) * range)); });
  }

 private:
  // More ranges than threads, so that a thread which lost its core to others does less.
  static constexpr int kRangesPerThread = 4;

  using Entry = void (*)(void* context, int thread);
  void RunOnAllThreads(Entry entry, void* context);
  void RunWorker(int thread);
  void Stop();
  void CallEntry(int thread);

  const int num_threads_;
  std::vector<std::thread> workers_;
  Entry entry_ = nullptr;
  void* context_ = nullptr;
  std::atomic<uint32_t> generation_ = 0;   // one more for every RunOnAllThreads
  std::atomic<uint32_t> num_running_ = 0;  // workers not yet done with the current generation
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> has_failed_ = false;
  std::exception_ptr failure_;
};

}  // namespace tessera::kernels
