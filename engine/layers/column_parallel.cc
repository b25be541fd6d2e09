#include "engine/layers/column_parallel.h"

#include "engine/layers/token_exchange.h"

namespace tessera::engine {

Buffer ColumnParallelBackward(const LayerContext& context, const LinearShape& shape, Buffer& dy,
                              Buffer& x, const Parameter& weight, const SharedInput& shared) {
  const Lifetime lifetime = context.OperandLifetime();
  TokenGather gather(context, x.array(), lifetime);
  const bool overlaps = context.parallel.overlap_tp_comm;
  if (overlaps) gather.Start();
  PartialSum partial(context, context.LocalTokens(lifetime));
  LinearDataGradient(context, shape, dy.array(), weight.weight, partial.part());
  if (shared.add_data_gradient) shared.add_data_gradient(partial.part());
  Buffer dx;
  if (overlaps) {
    partial.Start();
  } else {
    dx = partial.Reduce();
  }
  Buffer gathered = gather.Finish();
  if (shared.add_weight_gradient) shared.add_weight_gradient((gathered ? gathered : x).array());
  LinearWeightGradient(context, shape, dy, gathered ? gathered : x, weight.grad);
  return overlaps ? partial.Reduce() : std::move(dx);
}

}  // namespace tessera::engine
