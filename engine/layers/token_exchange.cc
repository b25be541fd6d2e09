#include "engine/layers/token_exchange.h"

#include <utility>

namespace tessera::engine {

kernels::ConstArray GatherTokens(const LayerContext& context, kernels::ConstArray local,
                                 Buffer& storage, Lifetime lifetime) {
  storage = TokenGather(context, local, lifetime).Finish();
  return storage ? storage.array() : local;
}

void TokenGather::Start() {
  const spec::LocalShape& shape = context_.shape;
  if (!shape.sequence_parallel) return;
  gathered_ = context_.Workspace(shape.tokens * shape.hidden, lifetime_);
  under_way_ = context_.groups.tensor->AllGatherAsync(
      local_.data, gathered_.data(), shape.local_tokens * shape.hidden, gathered_.dtype());
}

Buffer TokenGather::Finish() {
  if (!context_.shape.sequence_parallel) return {};
  context_.tensor_comm.Run([&] {
    if (!under_way_) Start();
    std::exchange(under_way_, nullptr)->Wait();
  });
  return std::move(gathered_);
}

PartialSum::PartialSum(const LayerContext& context, Buffer sum)
    : context_(context), sum_(std::move(sum)) {
  const spec::LocalShape& shape = context.shape;
  if (shape.sequence_parallel) part_ = context.Workspace(shape.tokens * shape.hidden);
}

void PartialSum::Start() {
  const spec::LocalShape& shape = context_.shape;
  Communicator& group = *context_.groups.tensor;
  const int64_t elements = shape.local_tokens * shape.hidden;
  is_started_ = true;
  if (part_) {
    under_way_ = group.ReduceScatterAsync(part_.data(), sum_.data(), elements, sum_.dtype(),
                                          base::ReduceOp::kSum);
  } else if (group.size() > 1) {
    under_way_ = group.AllReduceAsync(sum_.data(), sum_.data(), elements, sum_.dtype(),
                                      base::ReduceOp::kSum);
  }
}

Buffer PartialSum::Reduce() {
  if (context_.groups.tensor->size() > 1) {
    context_.tensor_comm.Run([&] {
      if (!is_started_) Start();
      std::exchange(under_way_, nullptr)->Wait();
    });
  }
  part_.Reset();
  return std::move(sum_);
}

}  // namespace tessera::engine
