#include "engine/layers/expert_mlp.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

// The matrices `name` of the experts that `expert_rank` holds, which lie at equal distances.
// `num_elements`: of one, which stands for the distance where there is no second one.
ExpertMatrices FindMatrices(const LayerContext& context, const ParameterStore& store, int layer,
                            const std::string& name, int64_t num_elements) {
  const int64_t num_here = context.shape.experts;
  const int64_t first_expert = context.groups.expert->rank() * num_here;
  const auto get = [&](int64_t i) {
    return store.Get("layers." + std::to_string(layer) + ".mlp.experts." +
                     std::to_string(first_expert + i) + "." + name + ".weight");
  };
  const auto offset = [](const Parameter& from, const Parameter& to) {
    return static_cast<const float*>(to.grad.data) - static_cast<const float*>(from.grad.data);
  };
  ExpertMatrices matrices{.first = get(0), .stride = num_elements};
  for (int64_t i = 1; i < num_here; ++i) {
    const int64_t stride = offset(get(i - 1), get(i));
    TESSERA_CHECK(i == 1 || stride == matrices.stride, name, " of expert ", first_expert + i,
                  " of layer ", layer, " lies ", stride, " elements on, not ", matrices.stride);
    matrices.stride = stride;
  }
  return matrices;
}

int64_t Sum(std::span<const int64_t> rows) {
  int64_t sum = 0;
  for (const int64_t count : rows) sum += count;
  return sum;
}

}  // namespace

ExpertMlp::ExpertMlp(const LayerContext& context, const ParameterStore& store, int layer)
    : context_(context),
      ffn_(context.shape.expert_ffn),
      first_(FindMatrices(context, store, layer, is_gated() ? "gate" : "up", up().out * up().in)),
      down_(FindMatrices(context, store, layer, "down", down().out * down().in)) {}

void ExpertMlp::Forward(std::span<const int64_t> expert_rows, const Product& shape,
                        kernels::ConstArray x, const ExpertMatrices& weights,
                        kernels::Array y) const {
  context_.backend.GroupedMatMul({.a = x,
                                  .b = weights.first.weight,
                                  .c = y,
                                  .group_rows = expert_rows.data(),
                                  .num_groups = static_cast<int64_t>(expert_rows.size()),
                                  .m = Sum(expert_rows),
                                  .n = shape.out,
                                  .k = shape.in,
                                  .group_stride = weights.stride,
                                  .layout = base::MatMulLayout::kNT});
}

void ExpertMlp::DataGradient(std::span<const int64_t> expert_rows, const Product& shape,
                             kernels::ConstArray dy, const ExpertMatrices& weights,
                             kernels::Array dx) const {
  context_.backend.GroupedMatMul({.a = dy,
                                  .b = weights.first.weight,
                                  .c = dx,
                                  .group_rows = expert_rows.data(),
                                  .num_groups = static_cast<int64_t>(expert_rows.size()),
                                  .m = Sum(expert_rows),
                                  .n = shape.in,
                                  .k = shape.out,
                                  .group_stride = weights.stride,
                                  .layout = base::MatMulLayout::kNN});
}

void ExpertMlp::WeightGradient(std::span<const int64_t> expert_rows, const Product& shape,
                               Buffer& dy, Buffer& x, const ExpertMatrices& weights) const {
  const kernels::GroupedMatMulArgs args{.a = dy.array(),
                                        .b = x.array(),
                                        .c = weights.first.grad,
                                        .num_groups = static_cast<int64_t>(expert_rows.size()),
                                        .m = shape.out,
                                        .n = shape.in,
                                        .k = Sum(expert_rows),
                                        .group_stride = weights.stride,
                                        .layout = base::MatMulLayout::kTN};
  const auto multiply = [&backend = context_.backend, args,
                         rows = std::vector(expert_rows.begin(), expert_rows.end())] {
    kernels::GroupedMatMulArgs with_rows = args;
    with_rows.group_rows = rows.data();
    backend.GroupedMatMul(with_rows);
  };
  WeightProducts* const put_off = context_.part.put_off;
  if (put_off == nullptr) {
    multiply();
    return;
  }
  put_off->Add(multiply);
  put_off->Keep(std::move(dy));
  put_off->Keep(std::move(x));
}

void ExpertMlp::Up(std::span<const int64_t> expert_rows, ExpertTensors& tensors) const {
  const int64_t num_rows = Sum(expert_rows);
  if (num_rows == 0) return;
  tensors.pre_activation = context_.Activation(num_rows * up().out);
  tensors.activation = context_.Activation(num_rows * ffn_);
  Forward(expert_rows, up(), tensors.rows.array(), first_, tensors.pre_activation.array());
  if (is_gated()) {
    context_.backend.SwiGluForward({.gate_up = tensors.pre_activation.array(),
                                    .row_weight = tensors.weights.array(),
                                    .y = tensors.activation.array(),
                                    .num_rows = num_rows,
                                    .width = ffn_});
  } else {
    context_.backend.WeightedGeluForward({.x = tensors.pre_activation.array(),
                                          .row_weight = tensors.weights.array(),
                                          .y = tensors.activation.array(),
                                          .num_rows = num_rows,
                                          .width = ffn_});
  }
}

Buffer ExpertMlp::Down(std::span<const int64_t> expert_rows, const ExpertTensors& tensors) const {
  const int64_t num_rows = Sum(expert_rows);
  // Of no rows one value, to have an address.
  Buffer y = context_.Workspace(std::max<int64_t>(1, num_rows * context_.shape.hidden));
  if (num_rows == 0) return y;
  Forward(expert_rows, down(), tensors.activation.array(), down_, y.array());
  return y;
}

ExpertMlp::Gradients ExpertMlp::Backward(std::span<const int64_t> expert_rows,
                                         ExpertTensors& tensors, Buffer dy) const {
  const int64_t num_rows = Sum(expert_rows);
  Gradients gradients{.weights = context_.Fp32Workspace(std::max<int64_t>(1, num_rows))};
  if (num_rows == 0) {
    gradients.rows = context_.Workspace(1);
    return gradients;
  }
  Buffer dactivation = context_.Workspace(num_rows * ffn_);
  DataGradient(expert_rows, down(), dy.array(), down_, dactivation.array());
  WeightGradient(expert_rows, down(), dy, tensors.activation, down_);
  dy.Reset();
  Buffer dpre =
      ActivationBackward(tensors, std::move(dactivation), num_rows, gradients.weights.array());
  gradients.rows = context_.Workspace(num_rows * context_.shape.hidden);
  DataGradient(expert_rows, up(), dpre.array(), first_, gradients.rows.array());
  WeightGradient(expert_rows, up(), dpre, tensors.rows, first_);
  return gradients;
}

Buffer ExpertMlp::ActivationBackward(const ExpertTensors& tensors, Buffer dactivation,
                                     int64_t num_rows, kernels::Array dweights) const {
  Buffer dpre = context_.Workspace(num_rows * up().out, context_.OperandLifetime());
  if (is_gated()) {
    context_.backend.SwiGluBackward({.dy = dactivation.array(),
                                     .gate_up = tensors.pre_activation.array(),
                                     .row_weight = tensors.weights.array(),
                                     .dgate_up = dpre.array(),
                                     .dweight = dweights,
                                     .num_rows = num_rows,
                                     .width = ffn_});
  } else {
    context_.backend.WeightedGeluBackward({.dy = dactivation.array(),
                                           .x = tensors.pre_activation.array(),
                                           .row_weight = tensors.weights.array(),
                                           .dx = dpre.array(),
                                           .dweight = dweights,
                                           .num_rows = num_rows,
                                           .width = ffn_});
  }
  return dpre;
}

}  // namespace tessera::engine
