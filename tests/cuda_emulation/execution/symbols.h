// The names of functions, from the symbol table of the running program.
#pragma once

#include <string>

namespace tessera::cuda_emulation {

// The demangled name without its parameters; the address in hexadecimal where the table is
// stripped.
std::string FunctionName(const void* function);

}  // namespace tessera::cuda_emulation
