#include "kernels/cpu/thread_pool.h"

#include "cost_model/base/check.h"
#include "kernels/cpu/blas.h"

namespace tessera::kernels {
namespace {

// About a microsecond of spinning, then a few turns for other threads of the core, then sleep: a
// wake-up costs some 5 us, a spinning thread costs another rank its core.
constexpr int kNumSpins = 500;
constexpr int kNumYields = 16;

// Waits until `value` is no longer `old`.
void WaitWhileEqual(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kNumSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
  }
  for (int i = 0; i < kNumYields; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  TESSERA_CHECK(num_threads >= 1, num_threads, " threads");
  try {
    for (int thread = 1; thread < num_threads; ++thread) {
      workers_.emplace_back([this, thread] { RunWorker(thread); });
    }
  } catch (...) {
    Stop();  // a thread that is destroyed before it is joined ends the process
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunOnAllThreads(Entry entry, void* context) {
  entry_ = entry;
  context_ = context;
  num_running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  CallEntry(0);
  while (true) {
    const uint32_t num_running = num_running_.load(std::memory_order_acquire);
    if (num_running == 0) break;
    WaitWhileEqual(num_running_, num_running);
  }
  if (has_failed_.exchange(false)) {
    const std::exception_ptr failure = std::move(failure_);
    failure_ = nullptr;
    std::rethrow_exception(failure);
  }
}

void ThreadPool::RunWorker(int thread) {
  UseOneBlasThread();
  for (uint32_t generation = 0;; ++generation) {
    WaitWhileEqual(generation_, generation);
    if (stopping_.load(std::memory_order_relaxed)) return;
    CallEntry(thread);
    if (num_running_.fetch_sub(1, std::memory_order_acq_rel) == 1) num_running_.notify_one();
  }
}

// An exception must reach the caller, not end the process from a worker.
void ThreadPool::CallEntry(int thread) {
  try {
    entry_(context_, thread);
  } catch (...) {
    if (!has_failed_.exchange(true)) failure_ = std::current_exception();
  }
}

}  // namespace tessera::kernels
