// What kernels compiled with -fsanitize=alignment,bounds call when they do what a GPU would trap
// on: a vector access at an address that is no multiple of its size, an index beyond a static
// array. The names and the layouts of the data are the compiler's. In a build with its own
// sanitizer runtime that runtime has them, and this file is left out.
#include <cstdint>
#include <string>

#include "tests/cuda_emulation/execution/block_runner.h"
#include "tests/cuda_emulation/execution/deadlock.h"

namespace {

using tessera::cuda_emulation::BlockRunner;

struct Location {
  const char* file;
  uint32_t line;
  uint32_t column;
};
struct Type {
  uint16_t kind;
  uint16_t info;
  char name[1];
};
struct AccessData {
  Location location;
  const Type* type;
  unsigned char log_alignment;
  unsigned char kind;
};
struct IndexData {
  Location location;
  const Type* array_type;
  const Type* index_type;
};

// The compiler takes for granted that these calls do not throw.
[[noreturn]] void Stop(const std::string& what, const Location& location) {
  const std::string file = location.file;
  BlockRunner::Current().Stop("thread " + tessera::cuda_emulation::IndexName(threadIdx) + ": " +
                              what + ", at " + file.substr(file.rfind('/') + 1) + ":" +
                              std::to_string(location.line));
}

}  // namespace

extern "C" {

void __ubsan_handle_type_mismatch_v1(const AccessData* data, uintptr_t address) {
  Stop("access of type " + std::string(data->type->name) + " at address " +
           std::to_string(address) + ", which is no multiple of " +
           std::to_string(1u << data->log_alignment),
       data->location);
}

void __ubsan_handle_out_of_bounds(const IndexData* data, uintptr_t index) {
  Stop("index " + std::to_string(static_cast<intptr_t>(index)) + " is out of bounds of " +
           std::string(data->array_type->name),
       data->location);
}

}  // extern "C"
