#include "engine/optimizer/host_state.h"

#include <algorithm>

#include "cost_model/base/float16.h"

namespace tessera::engine {
namespace {

void Widen(const uint16_t* bits, base::DType dtype, int64_t n, float* values) {
  const auto widen = dtype == base::DType::kBFloat16 ? base::BFloat16ToFloat : base::Float16ToFloat;
  std::transform(bits, bits + n, values, widen);
}

void Round(const float* values, base::DType dtype, int64_t n, uint16_t* bits) {
  const auto round = dtype == base::DType::kBFloat16 ? base::FloatToBFloat16 : base::FloatToFloat16;
  std::transform(values, values + n, bits, round);
}

size_t FloatBytes(int64_t n) { return static_cast<size_t>(n) * sizeof(float); }

}  // namespace

HostState::HostState(const LayerContext& context, const ParameterStore& store,
                     const AdamWOptimizer& optimizer, Parts parts)
    : context_(context),
      store_(store),
      optimizer_(optimizer),
      is_copy_(!context.backend.is_host_memory() ||
               store.weights().dtype != base::DType::kFloat32) {
  state_ = {.parameters = store.parameters(),
            .slices = store.slices(),
            .layout = store.layout(),
            .owned = store.owned(),
            .has_owned_weights_alone = store.keeps_owned_weights()};
  if (!is_copy_) {
    state_.weights = store.weights().As<float>();
    if (parts == Parts::kWeights) return;
    state_.m = optimizer.state().m().As<float>();
    state_.v = optimizer.state().v().As<float>();
    return;
  }
  weights_.resize(static_cast<size_t>(store.num_weights()));
  state_.weights = weights_.data();
  if (parts == Parts::kWeights) return;
  m_.resize(static_cast<size_t>(store.num_owned()));
  v_.resize(static_cast<size_t>(store.num_owned()));
  state_.m = m_.data();
  state_.v = v_.data();
}

int64_t HostState::OwnOffset(const spec::OwnedRange& range) const {
  return state_.has_owned_weights_alone ? range.state_offset : range.offset;
}

void HostState::Download() {
  if (!is_copy_) return;
  DownloadWeights();
  const OptimizerState& state = optimizer_.state();
  state.CopyOut(state.m(), m_.data(), store_.num_owned());
  state.CopyOut(state.v(), v_.data(), store_.num_owned());
}

void HostState::DownloadWeights() {
  const kernels::Array weights = store_.weights();
  const int64_t num_elements = store_.num_weights();
  if (weights.dtype == base::DType::kFloat32) {
    context_.backend.CopyToHost(weights_.data(), weights.data, FloatBytes(num_elements));
    return;
  }
  std::vector<uint16_t> piece(static_cast<size_t>(std::min(kPieceElements, num_elements)));
  for (int64_t begin = 0; begin < num_elements; begin += kPieceElements) {
    const int64_t n = std::min(kPieceElements, num_elements - begin);
    context_.backend.CopyToHost(piece.data(), weights.At(begin).data,
                                static_cast<size_t>(n) * sizeof(uint16_t));
    Widen(piece.data(), weights.dtype, n, weights_.data() + begin);
  }
  for (const spec::OwnedRange& range : store_.owned()) {
    optimizer_.state().CopyOut(optimizer_.state().master().At(range.state_offset),
                               weights_.data() + OwnOffset(range), range.num_elements);
  }
}

void HostState::Upload() const {
  if (!is_copy_) return;
  UploadWeights();
  const OptimizerState& state = optimizer_.state();
  if (state.master()) {
    for (const spec::OwnedRange& range : store_.owned()) {
      state.CopyIn(weights_.data() + OwnOffset(range), state.master().At(range.state_offset),
                   range.num_elements);
    }
  }
  if (state_.m == nullptr) return;
  state.CopyIn(m_.data(), state.m(), store_.num_owned());
  state.CopyIn(v_.data(), state.v(), store_.num_owned());
}

void HostState::UploadWeights() const {
  const kernels::Array weights = store_.weights();
  const int64_t num_elements = store_.num_weights();
  if (weights.dtype == base::DType::kFloat32) {
    context_.backend.CopyToDevice(weights.data, weights_.data(), FloatBytes(num_elements));
    return;
  }
  std::vector<uint16_t> piece(static_cast<size_t>(std::min(kPieceElements, num_elements)));
  for (int64_t begin = 0; begin < num_elements; begin += kPieceElements) {
    const int64_t n = std::min(kPieceElements, num_elements - begin);
    Round(weights_.data() + begin, weights.dtype, n, piece.data());
    context_.backend.CopyToDevice(weights.At(begin).data, piece.data(),
                                  static_cast<size_t>(n) * sizeof(uint16_t));
  }
}

}  // namespace tessera::engine
