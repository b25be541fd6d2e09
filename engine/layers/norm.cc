#include "engine/layers/norm.h"

namespace tessera::engine {

Norm::Norm(const LayerContext& context, const ParameterStore& store, const std::string& name)
    : context_(context),
      gamma_(store.Get(name + ".weight")),
      beta_(store.GetOptional(name + ".bias")) {}

void Norm::Forward(kernels::ConstArray x, NormStash& stash) const {
  const int64_t rows = context_.shape.local_tokens;
  const int64_t width = context_.shape.hidden;
  const bool is_layer_norm = context_.model.norm == spec::NormKind::kLayerNorm;
  stash.statistics = context_.Statistics(is_layer_norm ? 2 * rows : rows);
  stash.output = context_.Activation(rows * width);
  kernels::NormForwardArgs args{.x = x,
                                .gamma = gamma_.weight,
                                .y = stash.output.array(),
                                .rstd = stash.statistics.array(),
                                .num_rows = rows,
                                .width = width,
                                .epsilon = static_cast<float>(context_.model.norm_epsilon)};
  if (is_layer_norm) {
    args.beta = beta_.weight;
    args.mean = stash.statistics.array().At(rows);
    context_.backend.LayerNormForward(args);
  } else {
    context_.backend.RmsNormForward(args);
  }
}

void Norm::Backward(kernels::ConstArray x, const NormStash& stash,
                    kernels::ConstArray residual_grad, kernels::Array dy) const {
  const int64_t rows = context_.shape.local_tokens;
  kernels::NormBackwardArgs args{.dy = dy,
                                 .x = x,
                                 .gamma = gamma_.weight,
                                 .rstd = stash.statistics.array(),
                                 .residual_grad = residual_grad,
                                 .dx = dy,
                                 .dgamma = gamma_.grad,
                                 .num_rows = rows,
                                 .width = context_.shape.hidden};
  if (context_.model.norm == spec::NormKind::kLayerNorm) {
    args.mean = stash.statistics.array().At(rows);
    args.dbeta = beta_.grad;
    context_.backend.LayerNormBackward(args);
  } else {
    context_.backend.RmsNormBackward(args);
  }
}

}  // namespace tessera::engine
