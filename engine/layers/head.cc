#include "engine/layers/head.h"

#include <algorithm>
#include <utility>

#include "engine/layers/column_parallel.h"
#include "engine/layers/token_exchange.h"

namespace tessera::engine {
namespace {

const char* WeightName(const spec::ModelSpec& model) {
  return model.tied_embeddings ? "embedding.word.weight" : "output.weight";
}

}  // namespace

Head::Head(const LayerContext& context, const ParameterStore& store)
    : context_(context),
      norm_(context, store, "final_norm"),
      weight_(store.Get(WeightName(context.model))) {}

void Head::Forward(Buffer x, HeadStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  stash.input = std::move(x);
  stash.input.Retag(MemoryKind::kActivations);
  norm_.Forward(stash.input.array(), stash.norm);
  {
    Buffer gathered;
    const kernels::ConstArray input = GatherTokens(context_, stash.norm.output.array(), gathered);
    stash.dlogits = context_.Activation(shape.tokens * shape.vocab);
    LinearForward(context_, {shape.tokens, shape.vocab, shape.hidden}, input, weight_.weight,
                  nullptr, stash.dlogits.array());
  }
  Loss(stash);
}

void Head::Loss(HeadStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  Communicator& tensor = *context_.groups.tensor;
  const int64_t rows = shape.tokens;
  const int64_t vocab_begin = tensor.rank() * shape.vocab;
  const int64_t num_valid =
      std::clamp<int64_t>(context_.model.vocab_size - vocab_begin, 0, shape.vocab);
  Buffer row_values = context_.Fp32Workspace(4 * rows);
  const kernels::Array max = row_values.array();
  const kernels::Array sum_exp = max.At(rows);  // summed with target_logit in one reduction
  const kernels::Array target_logit = max.At(2 * rows);
  const kernels::Array loss = max.At(3 * rows);

  context_.backend.CrossEntropyMax({.logits = stash.dlogits.array(),
                                    .max = max,
                                    .num_rows = rows,
                                    .num_columns = shape.vocab,
                                    .num_valid = num_valid});
  context_.tensor_comm.Run(
      [&] { tensor.AllReduce(max.data, max.data, rows, max.dtype, base::ReduceOp::kMax); });
  context_.backend.CrossEntropySumExp({.logits = stash.dlogits.array(),
                                       .labels = stash.labels.array(),
                                       .max = max,
                                       .sum_exp = sum_exp,
                                       .target_logit = target_logit,
                                       .num_rows = rows,
                                       .num_columns = shape.vocab,
                                       .num_valid = num_valid,
                                       .vocab_begin = vocab_begin});
  context_.tensor_comm.Run([&] {
    tensor.AllReduce(sum_exp.data, sum_exp.data, 2 * rows, sum_exp.dtype, base::ReduceOp::kSum);
  });
  context_.backend.CrossEntropyGrad({.logits = stash.dlogits.array(),
                                     .labels = stash.labels.array(),
                                     .max = max,
                                     .sum_exp = sum_exp,
                                     .target_logit = target_logit,
                                     .loss = loss,
                                     .loss_sum = context_.loss.sum,
                                     .num_rows = rows,
                                     .num_columns = shape.vocab,
                                     .num_valid = num_valid,
                                     .vocab_begin = vocab_begin,
                                     .grad_scale = context_.loss.grad_scale});
}

Buffer Head::Backward(HeadStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  const LinearShape linear{shape.tokens, shape.vocab, shape.hidden};
  Buffer dx = ColumnParallelBackward(context_, linear, stash.dlogits, stash.norm.output, weight_);
  norm_.Backward(stash.input.array(), stash.norm, /*residual_grad=*/nullptr, dx.array());
  stash = {};
  return dx;
}

}  // namespace tessera::engine
