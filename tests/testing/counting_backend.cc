#include "tests/testing/counting_backend.h"

#include <cstdlib>
#include <cstring>

#include "cost_model/base/check.h"

namespace tessera::testing {
namespace {

class CountingDevice final : public engine::RankDevice {
 public:
  explicit CountingDevice(engine::Communicator& host_world) : world_(host_world) {}
  kernels::Backend& backend() override { return backend_; }
  engine::Communicator& world() override { return world_; }

 private:
  CountingBackend backend_;
  engine::Communicator& world_;
};

}  // namespace

void* CountingBackend::Allocate(size_t bytes) {
  void* const memory = std::malloc(bytes);
  TESSERA_CHECK(memory != nullptr, bytes, " bytes");
  return memory;
}

void CountingBackend::Free(void* memory, size_t /*bytes*/) { std::free(memory); }

void CountingBackend::CopyToDevice(void* device, const void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void CountingBackend::CopyToHost(void* host, const void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

void CountingBackend::DoRouterForward(const kernels::RouterForwardArgs& args) {
  auto* const chosen = args.chosen.As<int32_t>();
  for (int64_t i = 0; i < args.num_rows * args.num_chosen; ++i) {
    chosen[i] = static_cast<int32_t>(i % args.num_experts);
  }
}

std::unique_ptr<engine::RankDevice> MakeCountingDevice(engine::Communicator& host_world) {
  return std::make_unique<CountingDevice>(host_world);
}

}  // namespace tessera::testing
