#include "engine/layers/token_exchange.h"

#include <utility>

namespace tessera::engine {

const float* GatherTokens(const LayerContext& context, const float* local, Buffer& storage) {
  const spec::LocalShape& shape = context.shape;
  if (!shape.sequence_parallel) return local;
  storage = context.Workspace(shape.tokens * shape.hidden);
  context.groups.tensor->AllGather(local, storage.f32(), shape.local_tokens * shape.hidden,
                                   base::DType::kFloat32);
  return storage.f32();
}

Buffer ReducePartialSums(const LayerContext& context, Buffer partial) {
  const spec::LocalShape& shape = context.shape;
  if (shape.tensor_parallel_size == 1) return partial;
  if (!shape.sequence_parallel) {
    context.groups.tensor->AllReduce(partial.f32(), partial.f32(), shape.tokens * shape.hidden,
                                     base::DType::kFloat32, base::ReduceOp::kSum);
    return partial;
  }
  Buffer local = context.Workspace(shape.local_tokens * shape.hidden);
  context.groups.tensor->ReduceScatter(partial.f32(), local.f32(),
                                       shape.local_tokens * shape.hidden, base::DType::kFloat32,
                                       base::ReduceOp::kSum);
  return local;
}

}  // namespace tessera::engine
