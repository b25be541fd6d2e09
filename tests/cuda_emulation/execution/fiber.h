// Stacks to switch between: every CUDA thread that has to wait keeps one.
#pragma once

#include <cstddef>

#include "tests/cuda_emulation/execution/sanitizer.h"
#include "tests/cuda_emulation/execution/stack_switch.h"

namespace tessera::cuda_emulation {

// A stack with a guard page below, so that an overflow crashes instead of corrupting a neighbour.
class FiberStack {
 public:
  FiberStack();
  ~FiberStack();
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;

  char* bottom() const;
  char* top() const;

 private:
  char* memory_;
};

// A flow of control on a stack of its own, or (by the default constructor) on the stack of the
// operating-system thread that switches away from it.
class Fiber {
 public:
  Fiber() = default;
  // Will run `entry`, which must not return, when first switched to. `color` shifts the top of the
  // stack, so that fibers used in turn do not all compete for the same lines of the cache.
  Fiber(const FiberStack& stack, size_t color, void (*entry)());

  // Suspends `from`, which is running, and goes on with `to`.
  static void Switch(Fiber& from, Fiber& to) {
    to.left_ = &from;
    StartSwitchForSanitizer(&from.fake_stack_, to.stack_bottom_, to.stack_bytes_);
    SwitchStack(&from.suspended_, to.suspended_, &to);
    Arrive(*from.left_, from);
  }

 private:
  friend void EnterStack(void* payload);
  // After a switch, on the stack of `arrived`.
  static void Arrive(Fiber& left, Fiber& arrived) {
    FinishSwitchForSanitizer(arrived.fake_stack_, &left.stack_bottom_, &left.stack_bytes_);
  }

  void* suspended_ = nullptr;
  void (*entry_)() = nullptr;
  Fiber* left_ = nullptr;  // by the last switch to this one
  // What the address sanitizer wants to know of a stack it is switched to.
  const void* stack_bottom_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace tessera::cuda_emulation
