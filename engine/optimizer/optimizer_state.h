// Moments and master weights of what a rank updates, where the optimizer runs: on the device, or in
// host memory with an optimizer that the host runs (ZeRO-Offload: Ren et al. 2021,
// arXiv:2101.06840).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/layers/layer_context.h"

namespace tessera::engine {

// What travels between a device and the host at a time.
inline constexpr int64_t kPieceElements = 1 << 20;

class OptimizerState {
 public:
  // Of so many elements; moments are zeros, master weights not initialised. A device whose memory
  // is the host's keeps them there, whatever the layout says.
  OptimizerState(const LayerContext& context, int64_t num_elements);

  bool is_on_host() const { return is_on_host_; }
  // fp32 [num_elements].
  kernels::Array m() const { return Values(m_, host_m_); }
  kernels::Array v() const { return Values(v_, host_v_); }
  // What the update changes: of mixed precision, and of every precision on the host; else absent.
  kernels::Array master() const { return Values(master_, host_master_); }

  // Between an array of the above and fp32 memory of the host.
  void CopyOut(kernels::Array from, float* to, int64_t num_elements) const;
  void CopyIn(const float* from, kernels::Array to, int64_t num_elements) const;

 private:
  static kernels::Array Values(const Buffer& device, const std::vector<float>& host);

  const LayerContext& context_;
  bool is_on_host_;
  Buffer m_, v_, master_;
  std::vector<float> host_m_, host_v_, host_master_;
};

}  // namespace tessera::engine
