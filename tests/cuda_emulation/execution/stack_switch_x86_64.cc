#include <cstdint>

#include "tests/cuda_emulation/execution/stack_switch.h"

// Pushes what a function must preserve, swaps stacks, pops and returns. The return goes to where
// the other stack was suspended, which is the same instruction: so the processor predicts it, and
// all returns after it. A jump in its place makes each of them a misprediction, ten times slower.
asm(R"(
.pushsection .text
.globl tessera_switch_stack
.type tessera_switch_stack, @function
.p2align 4
tessera_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  movq %rdx, %rdi
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tessera_switch_stack, .-tessera_switch_stack
.popsection
)");

namespace tessera::cuda_emulation {

void* PrepareStack(char*, char* top) {
  constexpr int kNumSaved = 6;
  constexpr uintptr_t kAlignment = 16;
  auto* frame = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~(kAlignment - 1));
  *--frame = nullptr;  // the return address of EnterStack; aligns the stack as after a call
  *--frame = reinterpret_cast<void*>(&EnterStack);
  for (int i = 0; i < kNumSaved; ++i) *--frame = nullptr;
  return frame;
}

}  // namespace tessera::cuda_emulation
