// What the symbol table of the running program tells about its functions. A program stripped of it
// runs the same, with fewer checks and addresses in place of names.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::cuda_emulation {

// The demangled name without its parameters; the address in hexadecimal where the table is
// stripped.
std::string FunctionName(const void* function);

// A thread-local variable: where it lies in the block of such variables that each thread has.
struct ThreadLocalVariable {
  size_t offset;
  size_t num_bytes;
};

// Those that are declared inside functions: the static shared memory of kernels, since nothing else
// in the program declares any.
std::vector<ThreadLocalVariable> FindLocalThreadLocals();

// The block of thread-local variables of the calling thread.
char* ThreadLocalBlock();

}  // namespace tessera::cuda_emulation
