// Lets threads wait for a condition over atomics that other threads change: spin for a moment, give
// up the core a few times, then sleep in the kernel until somebody notifies. For the wait of a few
// microseconds as for the one of minutes, and for more threads than cores.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera::engine {

struct WaitPolicy {
  int num_spins = 0;   // looks at the condition before the first yield
  int num_yields = 0;  // yields before the first sleep
};

// For `num_threads` threads that wait for each other. Spinning pays only when each has a core.
WaitPolicy WaitPolicyFor(int num_threads);

enum class WaitResult : uint8_t { kReady, kInterrupted, kTimedOut };

class EventCount {
 public:
  using Clock = std::chrono::steady_clock;
  // kProcesses: it lies in memory that the processes share.
  enum class Scope : uint8_t { kThreads, kProcesses };

  explicit EventCount(Scope scope = Scope::kThreads) : scope_(scope) {}

  // Wakes all sleepers to look again. Call after the change they wait for.
  void NotifyAll();

  // Returns once `ready()`, `interrupted()` or the deadline has come, looked at in this order.
  // Both are called often and must be cheap; spinning does not look at `interrupted`.
  template <typename Ready, typename Interrupted>
  WaitResult Await(const WaitPolicy& policy, Clock::time_point deadline, const Ready& ready,
                   const Interrupted& interrupted) {
    for (int i = 0; i < policy.num_spins; ++i) {
      if (ready()) return WaitResult::kReady;
      Pause();
    }
    const Clock::time_point yields_end = Clock::now() + kMaxYielding;
    for (int i = 0;; ++i) {
      if (ready()) return WaitResult::kReady;
      if (interrupted()) return ready() ? WaitResult::kReady : WaitResult::kInterrupted;
      const Clock::time_point now = Clock::now();
      if (i < policy.num_yields && now < yields_end) {
        Yield();
        continue;
      }
      if (now >= deadline) return WaitResult::kTimedOut;
      const Sleeper sleeper(*this);
      if (!ready() && !interrupted()) SleepUntil(sleeper.epoch, deadline);
    }
  }

 private:
  // A thread that may be asleep. Whoever changes the condition either sees it counted and wakes it,
  // or has changed the epoch before the sleeper read it, which then sees the change (the two
  // counters are sequentially consistent).
  struct Sleeper {
    explicit Sleeper(EventCount& owner)
        : event(owner), epoch((++owner.num_sleepers_, owner.epoch_.load())) {}
    ~Sleeper() { --event.num_sleepers_; }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    EventCount& event;
    const uint32_t epoch;
  };

  // A core that is given up for longer has been given to another program: whoever is woken gets one
  // sooner than who yields.
  static constexpr std::chrono::microseconds kMaxYielding{50};

  static void Pause();
  static void Yield();
  // The operation for the kernel, which looks for sleepers in this process alone if it may.
  int FutexOf(int operation) const;
  // Returns at the latest when the epoch is no longer `epoch` or the deadline has passed.
  void SleepUntil(uint32_t epoch, Clock::time_point deadline);

  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<int> num_sleepers_{0};
  const Scope scope_;
};

}  // namespace tessera::engine
