#include "engine/layers/token_exchange.h"

#include <utility>

namespace tessera::engine {

kernels::ConstArray GatherTokens(const LayerContext& context, kernels::ConstArray local,
                                 Buffer& storage) {
  const spec::LocalShape& shape = context.shape;
  if (!shape.sequence_parallel) return local;
  storage = context.Workspace(shape.tokens * shape.hidden);
  context.tensor_comm.Run([&] {
    context.groups.tensor->AllGather(local.data, storage.data(), shape.local_tokens * shape.hidden,
                                     storage.dtype());
  });
  return storage.array();
}

Buffer ReducePartialSums(const LayerContext& context, Buffer partial) {
  const spec::LocalShape& shape = context.shape;
  if (shape.tensor_parallel_size == 1) return partial;
  if (!shape.sequence_parallel) {
    context.tensor_comm.Run([&] {
      context.groups.tensor->AllReduce(partial.data(), partial.data(), shape.tokens * shape.hidden,
                                       partial.dtype(), base::ReduceOp::kSum);
    });
    return partial;
  }
  Buffer local = context.Workspace(shape.local_tokens * shape.hidden);
  context.tensor_comm.Run([&] {
    context.groups.tensor->ReduceScatter(partial.data(), local.data(),
                                         shape.local_tokens * shape.hidden, partial.dtype(),
                                         base::ReduceOp::kSum);
  });
  return local;
}

}  // namespace tessera::engine
