#include "engine/comm/event_count.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace tessera::engine {
namespace {

// A few microseconds of looking: longer than a small operation between two running threads takes.
// No more, because the kernel may have put the thread that is waited for on the same core.
constexpr int kNumSpins = 50;
constexpr int kNumYields = 50;

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
                  std::atomic<uint32_t>::is_always_lock_free,
              "the kernel waits on a plain 32-bit word");

}  // namespace

WaitPolicy WaitPolicyFor(int num_threads) {
  const bool has_core_each =
      static_cast<unsigned>(num_threads) <= std::thread::hardware_concurrency();
  return {.num_spins = has_core_each ? kNumSpins : 0, .num_yields = kNumYields};
}

void EventCount::NotifyAll() {
  ++epoch_;
  if (num_sleepers_.load() == 0) return;
  syscall(SYS_futex, &epoch_, FutexOf(FUTEX_WAKE), INT32_MAX, nullptr, nullptr, 0);
}

void EventCount::SleepUntil(uint32_t epoch, Clock::time_point deadline) {
  using std::chrono::nanoseconds;
  const int64_t left_ns = std::chrono::duration_cast<nanoseconds>(deadline - Clock::now()).count();
  if (left_ns <= 0) return;
  constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
  timespec timeout = {};
  timeout.tv_sec = left_ns / kNanosecondsPerSecond;
  timeout.tv_nsec = left_ns % kNanosecondsPerSecond;
  syscall(SYS_futex, &epoch_, FutexOf(FUTEX_WAIT), epoch, &timeout, nullptr, 0);
}

int EventCount::FutexOf(int operation) const {
  return scope_ == Scope::kThreads ? operation | FUTEX_PRIVATE_FLAG : operation;
}

void EventCount::Yield() { sched_yield(); }

void EventCount::Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace tessera::engine
