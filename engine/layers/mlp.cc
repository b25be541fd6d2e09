#include "engine/layers/mlp.h"

#include <utility>

#include "engine/layers/column_parallel.h"
#include "engine/layers/token_exchange.h"

namespace tessera::engine {
namespace {

// The parameter that the first product starts at.
std::string FirstName(const LayerContext& context, const std::string& prefix) {
  const bool gated = context.model.activation == spec::ActivationKind::kSwiGlu;
  return prefix + (gated ? "gate" : "up");
}

}  // namespace

Mlp::Mlp(const LayerContext& context, const ParameterStore& store, const std::string& prefix,
         int64_t ffn)
    : context_(context),
      ffn_(ffn),
      first_weight_(store.Get(FirstName(context, prefix) + ".weight")),
      first_bias_(store.GetOptional(FirstName(context, prefix) + ".bias")),
      down_weight_(store.Get(prefix + "down.weight")),
      down_bias_(store.GetOptional(prefix + "down.bias")) {
  const Parameter gate = store.GetOptional(prefix + "output_gate.weight");
  if (gate.weight) gate_.emplace(context, gate);
}

void Mlp::Up(kernels::ConstArray tokens, MlpTensors& tensors) const {
  const spec::LocalShape& shape = context_.shape;
  Buffer gathered;
  const kernels::ConstArray input = GatherTokens(context_, tokens, gathered);
  if (gate_) gate_->Forward(input, tensors.gate);
  const LinearShape linear{shape.tokens, first_width(), shape.hidden};
  tensors.pre_activation = context_.Activation(shape.tokens * first_width());
  tensors.activation = context_.Activation(shape.tokens * ffn_);
  if (is_gated()) {
    LinearForward(context_, linear, input, first_weight_.weight, first_bias_.weight,
                  tensors.pre_activation.array());
    context_.backend.SwiGluForward({.gate_up = tensors.pre_activation.array(),
                                    .row_weight = tensors.gate.weights.array(),
                                    .y = tensors.activation.array(),
                                    .num_rows = shape.tokens,
                                    .width = ffn_});
  } else {
    LinearGeluForward(context_, linear, input, first_weight_.weight, first_bias_.weight,
                      tensors.pre_activation.array(), tensors.activation.array());
  }
}

Buffer Mlp::Down(const MlpTensors& tensors, Buffer output) const {
  const spec::LocalShape& shape = context_.shape;
  PartialSum partial(context_, std::move(output));
  LinearForward(context_, {shape.tokens, shape.hidden, ffn_}, tensors.activation.array(),
                down_weight_.weight, nullptr, partial.part());
  return partial.Reduce();
}

Buffer Mlp::Backward(Buffer& tokens, MlpTensors& tensors, Buffer& dy) const {
  return UpBackward(tokens, DownBackward(tensors, dy));
}

Mlp::PreActivationGradient Mlp::DownBackward(MlpTensors& tensors, Buffer& dy) const {
  const spec::LocalShape& shape = context_.shape;
  LinearBiasGradient(context_, dy.array(), shape.local_tokens, shape.hidden, down_bias_.grad);
  Buffer gathered;
  const kernels::ConstArray dy_all =
      GatherTokens(context_, dy.array(), gathered, context_.OperandLifetime());
  const LinearShape linear{shape.tokens, shape.hidden, ffn_};
  Buffer dactivation = context_.Workspace(
      shape.tokens * ffn_, is_gated() ? Lifetime::kPass : context_.OperandLifetime());
  LinearDataGradient(context_, linear, dy_all, down_weight_.weight, dactivation.array(),
                     is_gated() ? nullptr : tensors.pre_activation.array());
  LinearWeightGradient(context_, linear, gathered ? gathered : dy, tensors.activation,
                       down_weight_.grad);
  if (!is_gated()) return {.dpre = std::move(dactivation)};
  PreActivationGradient gradient{
      .dpre = context_.Workspace(shape.tokens * first_width(), context_.OperandLifetime())};
  const Buffer dweights = gate_ ? context_.Fp32Workspace(shape.tokens) : Buffer();
  context_.backend.SwiGluBackward({.dy = dactivation.array(),
                                   .gate_up = tensors.pre_activation.array(),
                                   .row_weight = tensors.gate.weights.array(),
                                   .dgate_up = gradient.dpre.array(),
                                   .dweight = dweights.array(),
                                   .num_rows = shape.tokens,
                                   .width = ffn_});
  dactivation.Reset();
  if (gate_) gradient.gate_dlogits = gate_->Backward(tensors.gate, dweights.array());
  return gradient;
}

Buffer Mlp::UpBackward(Buffer& tokens, PreActivationGradient gradient) const {
  const LinearShape linear{context_.shape.tokens, first_width(), context_.shape.hidden};
  LinearBiasGradient(context_, gradient.dpre.array(), linear.rows, linear.out, first_bias_.grad);
  SharedInput shared;
  if (gate_) {
    shared = {.add_data_gradient =
                  [&](kernels::Array dx) { gate_->AddDataGradient(gradient.gate_dlogits, dx); },
              .add_weight_gradient =
                  [&](kernels::ConstArray x) { gate_->WeightGradient(gradient.gate_dlogits, x); }};
  }
  return ColumnParallelBackward(context_, linear, gradient.dpre, tokens, first_weight_, shared);
}

}  // namespace tessera::engine
