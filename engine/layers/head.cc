#include "engine/layers/head.h"

#include <algorithm>
#include <utility>

#include "engine/layers/linear.h"
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

double Head::Forward(Buffer x, float grad_scale, HeadStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  stash.input = std::move(x);
  stash.input.Retag(MemoryKind::kActivations);
  norm_.Forward(stash.input.f32(), stash.norm);
  {
    Buffer gathered;
    const float* input = GatherTokens(context_, stash.norm.output.f32(), gathered);
    stash.dlogits = context_.Activation(shape.tokens * shape.vocab);
    LinearForward(context_, {shape.tokens, shape.vocab, shape.hidden}, input, weight_.weight,
                  nullptr, stash.dlogits.f32());
  }
  return Loss(grad_scale, stash);
}

double Head::Loss(float grad_scale, HeadStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  Communicator& tensor = *context_.groups.tensor;
  const int64_t rows = shape.tokens;
  const int64_t vocab_begin = tensor.rank() * shape.vocab;
  const int64_t num_valid =
      std::clamp<int64_t>(context_.model.vocab_size - vocab_begin, 0, shape.vocab);
  Buffer row_values = context_.Workspace(4 * rows);
  float* const max = row_values.f32();
  float* const sum_exp = max + rows;  // sum_exp and target_logit are summed in one reduction
  float* const target_logit = sum_exp + rows;
  float* const loss = target_logit + rows;

  context_.backend.CrossEntropyMax({.logits = stash.dlogits.f32(),
                                    .max = max,
                                    .num_rows = rows,
                                    .num_columns = shape.vocab,
                                    .num_valid = num_valid});
  tensor.AllReduce(max, max, rows, base::DType::kFloat32, base::ReduceOp::kMax);
  context_.backend.CrossEntropySumExp({.logits = stash.dlogits.f32(),
                                       .labels = stash.labels.i32(),
                                       .max = max,
                                       .sum_exp = sum_exp,
                                       .target_logit = target_logit,
                                       .num_rows = rows,
                                       .num_columns = shape.vocab,
                                       .num_valid = num_valid,
                                       .vocab_begin = vocab_begin});
  tensor.AllReduce(sum_exp, sum_exp, 2 * rows, base::DType::kFloat32, base::ReduceOp::kSum);
  double sum = 0;
  context_.backend.CrossEntropyGrad({.logits = stash.dlogits.f32(),
                                     .labels = stash.labels.i32(),
                                     .max = max,
                                     .sum_exp = sum_exp,
                                     .target_logit = target_logit,
                                     .loss = loss,
                                     .loss_sum = &sum,
                                     .num_rows = rows,
                                     .num_columns = shape.vocab,
                                     .num_valid = num_valid,
                                     .vocab_begin = vocab_begin,
                                     .grad_scale = grad_scale});
  return sum;
}

Buffer Head::Backward(HeadStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  const LinearShape linear{shape.tokens, shape.vocab, shape.hidden};
  Buffer partial = context_.Workspace(shape.tokens * shape.hidden);
  LinearDataGradient(context_, linear, stash.dlogits.f32(), weight_.weight, partial.f32());
  Buffer dx = ReducePartialSums(context_, std::move(partial));
  {
    Buffer gathered;
    const float* input = GatherTokens(context_, stash.norm.output.f32(), gathered);
    LinearWeightGradient(context_, linear, stash.dlogits.f32(), input, weight_.grad);
  }
  norm_.Backward(stash.input.f32(), stash.norm, /*residual_grad=*/nullptr, dx.f32());
  stash = {};
  return dx;
}

}  // namespace tessera::engine
