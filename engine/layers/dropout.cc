#include "engine/layers/dropout.h"

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

base::PhiloxKey KeyOf(const DropoutState& state, const std::string& place) {
  return base::MakePhiloxKey(state.seed, base::Concat("dropout.", state.step, ".", place));
}

int64_t WholeSequence(const spec::LocalShape& shape) {
  return shape.sequence * shape.context_parallel_size;
}

}  // namespace

kernels::RowDropout DropoutOfRows(const LayerContext& context, double probability,
                                  const std::string& place) {
  if (probability == 0) return {};
  const spec::LocalShape& shape = context.shape;
  const auto first_token =
      static_cast<uint64_t>(context.dropout.first_sample * WholeSequence(shape));
  const auto width = static_cast<uint64_t>(shape.hidden);
  return {.probability = static_cast<float>(probability),
          .key = KeyOf(context.dropout, place),
          .first_index = first_token * width,
          .index_stride = width,
          .first_row = context.FirstRow(),
          .sequence = shape.sequence,
          .whole_sequence = WholeSequence(shape),
          .positions = shape.positions};
}

kernels::AttentionDropout DropoutOfAttention(const LayerContext& context,
                                             const spec::AttentionPart& part,
                                             const base::TokenPositions& keys,
                                             const std::string& place) {
  const double probability = context.dropout.attention();
  if (probability == 0) return {};
  const spec::LocalShape& shape = context.shape;
  return {.probability = static_cast<float>(probability),
          .key = KeyOf(context.dropout, place),
          .first_sample = context.dropout.first_sample,
          .first_head = context.groups.tensor->rank() * shape.heads,
          .num_heads = context.model.num_attention_heads,
          .sequence = WholeSequence(shape),
          .queries = shape.positions.From(part.first_query),
          .keys = keys};
}

void BranchEnd::AddResidual(kernels::ConstArray residual, kernels::ConstArray bias,
                            kernels::Array y) const {
  context_.backend.ResidualAdd({.x = y,
                                .residual = residual,
                                .bias = bias,
                                .y = y,
                                .num_rows = context_.shape.local_tokens,
                                .width = context_.shape.hidden,
                                .dropout = Dropout()});
}

Buffer BranchEnd::Gradient(kernels::ConstArray dy) const {
  const kernels::RowDropout dropout = Dropout();
  if (dropout.probability == 0) return {};
  Buffer gradient = context_.LocalTokens(context_.OperandLifetime());
  context_.backend.Dropout({.x = dy,
                            .y = gradient.array(),
                            .num_rows = context_.shape.local_tokens,
                            .width = context_.shape.hidden,
                            .dropout = dropout});
  return gradient;
}

}  // namespace tessera::engine
