// The switch from one stack to another. Two files define it, and CMake picks:
// stack_switch_x86_64.cc, and stack_switch_boost.cc for other processors.
#pragma once

namespace tessera::cuda_emulation {

// Makes a stack ready for its first switch, which will call EnterStack. Returns what to switch to.
void* PrepareStack(char* bottom, char* top);

// Suspends the caller, leaving in *suspended what to switch back to, and goes on with `to`.
void SwitchStack(void** suspended, void* to, void* payload) asm("tessera_switch_stack");

// What a stack begins with, given the payload of the switch. Must not return. Defined by the user.
void EnterStack(void* payload);

}  // namespace tessera::cuda_emulation
