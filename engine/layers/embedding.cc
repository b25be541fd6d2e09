#include "engine/layers/embedding.h"

#include <utility>

#include "engine/layers/dropout.h"
#include "engine/layers/token_exchange.h"

namespace tessera::engine {

Embedding::Embedding(const LayerContext& context, const ParameterStore& store)
    : context_(context),
      word_(store.Get("embedding.word.weight")),
      position_(store.GetOptional("embedding.position.weight")) {}

Buffer Embedding::Forward(const EmbeddingStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  PartialSum partial(context_, context_.LocalTokens(Lifetime::kStep));
  context_.backend.EmbeddingForward({.tokens = stash.tokens.array(),
                                     .table = word_.weight,
                                     .out = partial.part(),
                                     .num_rows = shape.tokens,
                                     .width = shape.hidden,
                                     .vocab_begin = context_.groups.tensor->rank() * shape.vocab,
                                     .num_vocab_rows = shape.vocab});
  Buffer x = partial.Reduce();
  if (position_.weight) {
    context_.backend.PositionForward({.table = position_.weight,
                                      .x = x.array(),
                                      .num_rows = shape.local_tokens,
                                      .width = shape.hidden,
                                      .first_row = context_.FirstRow(),
                                      .sequence = shape.sequence,
                                      .positions = shape.positions,
                                      .documents = context_.PositionDocuments()});
  }
  Drop(x.array());
  return x;
}

void Embedding::Drop(kernels::Array rows) const {
  const kernels::RowDropout dropout =
      DropoutOfRows(context_, context_.dropout.embedding(), "embedding");
  if (dropout.probability == 0) return;
  context_.backend.Dropout({.x = rows,
                            .y = rows,
                            .num_rows = context_.shape.local_tokens,
                            .width = context_.shape.hidden,
                            .dropout = dropout});
}

void Embedding::Backward(EmbeddingStash& stash, const Buffer& dy) const {
  const spec::LocalShape& shape = context_.shape;
  Drop(dy.array());
  if (position_.weight) {
    context_.backend.PositionBackward({.dx = dy.array(),
                                       .dtable = position_.grad,
                                       .num_rows = shape.local_tokens,
                                       .width = shape.hidden,
                                       .first_row = context_.FirstRow(),
                                       .sequence = shape.sequence,
                                       .positions = shape.positions,
                                       .documents = context_.PositionDocuments()});
  }
  Buffer gathered;
  const kernels::ConstArray dy_all = GatherTokens(context_, dy.array(), gathered);
  context_.backend.EmbeddingBackward({.tokens = stash.tokens.array(),
                                      .dout = dy_all,
                                      .dtable = word_.grad,
                                      .num_rows = shape.tokens,
                                      .width = shape.hidden,
                                      .vocab_begin = context_.groups.tensor->rank() * shape.vocab,
                                      .num_vocab_rows = shape.vocab});
  stash = {};
}

}  // namespace tessera::engine
