// cudaLaunchKernelEx: packs a kernel with its arguments into an operation of a stream.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/runtime/runtime_types.h"

namespace tessera::cuda_emulation {

// A kernel and its arguments, of whatever types.
struct KernelCall {
  const void* function = nullptr;
  void (*call)(const void* arguments) = nullptr;
  std::shared_ptr<const void> arguments;  // shared by the copies that graphs replay
  std::vector<const void*> pointers;      // those among the arguments, to be checked
};

// Checks the sizes as CUDA does and appends the kernel to its stream.
cudaError_t EnqueueKernel(const cudaLaunchConfig_t& config, const KernelCall& kernel);

}  // namespace tessera::cuda_emulation

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "arguments of kernels are copied byte by byte");
  struct Packed {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
  };
  auto packed = std::make_shared<const Packed>(
      Packed{kernel, std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)});
  tessera::cuda_emulation::KernelCall call;
  call.function = reinterpret_cast<const void*>(kernel);
  call.call = [](const void* erased) {
    const auto& typed = *static_cast<const Packed*>(erased);
    std::apply(typed.kernel, typed.arguments);
  };
  const auto note_pointer = [&call](const auto& argument) {
    if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(argument)>>) {
      call.pointers.push_back(argument);
    }
  };
  std::apply([&](const auto&... each) { (note_pointer(each), ...); }, packed->arguments);
  call.arguments = std::move(packed);
  return tessera::cuda_emulation::EnqueueKernel(*config, call);
}
