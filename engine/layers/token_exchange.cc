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

PartialSum::PartialSum(const LayerContext& context, Buffer sum)
    : context_(context), sum_(std::move(sum)) {
  const spec::LocalShape& shape = context.shape;
  if (shape.sequence_parallel) part_ = context.Workspace(shape.tokens * shape.hidden);
}

Buffer PartialSum::Reduce() {
  const spec::LocalShape& shape = context_.shape;
  Communicator& group = *context_.groups.tensor;
  const int64_t elements = shape.local_tokens * shape.hidden;
  if (part_) {
    context_.tensor_comm.Run([&] {
      group.ReduceScatter(part_.data(), sum_.data(), elements, sum_.dtype(), base::ReduceOp::kSum);
    });
    part_.Reset();
  } else if (group.size() > 1) {
    context_.tensor_comm.Run([&] {
      group.AllReduce(sum_.data(), sum_.data(), elements, sum_.dtype(), base::ReduceOp::kSum);
    });
  }
  return std::move(sum_);
}

}  // namespace tessera::engine
