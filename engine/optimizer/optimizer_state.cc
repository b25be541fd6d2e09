#include "engine/optimizer/optimizer_state.h"

#include <algorithm>

namespace tessera::engine {

OptimizerState::OptimizerState(const LayerContext& context, int64_t num_elements)
    : context_(context),
      is_on_host_(context.parallel.offload_optimizer && !context.backend.is_host_memory()) {
  if (is_on_host_) {
    const auto size = static_cast<size_t>(num_elements);
    host_m_.resize(size);
    host_v_.resize(size);
    host_master_.resize(size);
    return;
  }
  const auto allocate = [&] {
    return context.pool.Allocate(MemoryKind::kOptimizer, base::DType::kFloat32, num_elements);
  };
  m_ = allocate();
  v_ = allocate();
  context.backend.Fill(m_.array(), num_elements, 0.0F);
  context.backend.Fill(v_.array(), num_elements, 0.0F);
  if (context.types.has_master_weights) master_ = allocate();
}

kernels::Array OptimizerState::Values(const Buffer& device, const std::vector<float>& host) {
  if (device) return device.array();
  if (host.empty()) return {};
  return {const_cast<float*>(host.data()), base::DType::kFloat32};
}

void OptimizerState::CopyOut(kernels::Array from, float* to, int64_t num_elements) const {
  if (is_on_host_) {
    std::copy_n(from.As<float>(), num_elements, to);
    return;
  }
  context_.backend.CopyToHost(to, from.data, static_cast<size_t>(num_elements) * sizeof(float));
}

void OptimizerState::CopyIn(const float* from, kernels::Array to, int64_t num_elements) const {
  if (is_on_host_) {
    std::copy_n(from, num_elements, to.As<float>());
    return;
  }
  context_.backend.CopyToDevice(to.data, from, static_cast<size_t>(num_elements) * sizeof(float));
}

}  // namespace tessera::engine
