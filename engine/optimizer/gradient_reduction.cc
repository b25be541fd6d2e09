#include "engine/optimizer/gradient_reduction.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "engine/optimizer/holders.h"

namespace tessera::engine {
namespace {

// Elements that one packed reduction holds: as many bytes as the gradient of a layer's input, less
// than any pass takes, so that the memory of a step is that of its passes.
int64_t MostPackedElements(const LayerContext& context) {
  return context.shape.local_tokens * context.shape.hidden *
         base::SizeBytes(context.types.activation) / base::SizeBytes(base::DType::kFloat32);
}

std::vector<size_t> ParametersOf(const spec::FlatBucket& bucket) {
  std::vector<size_t> parameters;
  for (int i = 0; i < bucket.num_parameters; ++i) {
    parameters.push_back(static_cast<size_t>(bucket.first_parameter + i));
  }
  return parameters;
}

}  // namespace

GradientReducer::GradientReducer(const LayerContext& context, const ParameterStore& store,
                                 SpanLog& waits, bool overlaps)
    : context_(context),
      store_(store),
      waits_(waits),
      overlaps_(overlaps),
      is_final_(store.parameters().size()),
      is_started_(store.layout().buckets.size()) {
  for (size_t b = 0; b < is_started_.size(); ++b) {
    bucket_of_.insert(bucket_of_.end(),
                      static_cast<size_t>(store.layout().buckets[b].num_parameters), b);
  }
}

bool GradientReducer::ReducesAny() const {
  const std::vector<spec::FlatBucket>& buckets = store_.layout().buckets;
  return std::any_of(buckets.begin(), buckets.end(), [&](const spec::FlatBucket& bucket) {
    return HoldersOf(context_.groups, bucket.is_expert).size() > 1;
  });
}

bool GradientReducer::IsTied(size_t parameter) const {
  return context_.model.tied_embeddings &&
         store_.parameters()[parameter].name == spec::kWordEmbedding;
}

bool GradientReducer::IsReady(const spec::FlatBucket& bucket) const {
  const auto begin = is_final_.begin() + bucket.first_parameter;
  return std::all_of(begin, begin + bucket.num_parameters, [](bool is_final) { return is_final; });
}

void GradientReducer::OnLayerDone(int layer) {
  if (store_.keeps_owned_gradients() || !ReducesAny()) return;
  bool is_behind = false;  // the layer
  for (size_t i = 0; i < is_final_.size(); ++i) {
    const int of = store_.parameters()[i].layer;
    is_behind = is_behind || of == layer;
    const bool is_head = is_behind && of < 0 && layer + 1 == context_.model.num_layers;
    // The other stage would be waited for before it can come here.
    const bool meets_other_stage = IsTied(i) && context_.groups.embedding->size() > 1;
    if (of == layer || (is_head && !meets_other_stage)) is_final_[i] = true;
  }
  for (size_t b = is_started_.size(); b-- > 0;) {
    const spec::FlatBucket& bucket = store_.layout().buckets[b];
    if (is_started_[b] || !IsReady(bucket)) continue;
    ReduceShared(ParametersOf(bucket), /*with_tied=*/false);
    StartBucket(b);
    is_started_[b] = true;
  }
}

void GradientReducer::BeforeBackward(int part) {
  if (!store_.keeps_owned_gradients()) return;
  const bool shares_embedding = store_.parts().shares_embedding();
  if (part == spec::kHeadPart && shares_embedding) ClearGradients(spec::kEmbeddingPart);
  if (part != spec::kEmbeddingPart || !shares_embedding) ClearGradients(part);
}

void GradientReducer::ClearGradients(int number) {
  const Part* const part = store_.parts().Find(number);
  if (part == nullptr) return;
  if (context_.parallel.overlap_grad_reduce) {
    Settle(scattering_[static_cast<size_t>(part->slot)]);
  } else {
    for (Scattering& scattering : scattering_) Settle(scattering);
  }
  context_.backend.Fill(store_.WholeGradients(*part), part->num_elements, 0.0F);
}

void GradientReducer::AfterBackward(int number) {
  if (!store_.keeps_owned_gradients()) return;
  const Part* const part = store_.parts().Find(number);
  if (part == nullptr) return;
  Scattering& scattering = scattering_[static_cast<size_t>(part->slot)];
  scattering.part = part;
  for (const size_t bucket : part->buckets) {
    const spec::OwnedRange& own = store_.owned()[bucket];
    Communicator& group = ShardGroupOf(context_.groups, own.is_expert);
    const kernels::Array data = store_.WholeGradients(bucket);
    if (check_ != nullptr) check_->BeforeScatter(bucket, data);
    scattering.handles.push_back(
        group.ReduceScatterAsync(data.data, data.At(group.rank() * own.num_elements).data,
                                 own.num_elements, data.dtype, base::ReduceOp::kSum));
  }
  if (!overlaps_) Settle(scattering);
}

void GradientReducer::Settle(Scattering& scattering) {
  if (scattering.part == nullptr) return;
  waits_.Run([&] {
    for (const auto& handle : scattering.handles) handle->Wait();
  });
  for (const size_t bucket : scattering.part->buckets) {
    const spec::OwnedRange& own = store_.owned()[bucket];
    const int shard = ShardGroupOf(context_.groups, own.is_expert).rank();
    context_.backend.Add(store_.WholeGradients(bucket).At(shard * own.num_elements),
                         store_.OwnGradients(own), own.num_elements);
  }
  scattering = {};
}

void GradientReducer::Finish() {
  for (Scattering& scattering : scattering_) Settle(scattering);
  if (check_ != nullptr && store_.keeps_owned_gradients()) check_->AfterScatter();
  std::vector<size_t> left;
  for (size_t b = 0; b < is_started_.size(); ++b) {
    if (is_started_[b]) continue;
    const std::vector<size_t> parameters = ParametersOf(store_.layout().buckets[b]);
    left.insert(left.end(), parameters.begin(), parameters.end());
  }
  ReduceShared(left, /*with_tied=*/true);
  if (!store_.keeps_owned_gradients()) {
    for (size_t b = 0; b < is_started_.size(); ++b) {
      if (!is_started_[b]) StartBucket(b);
    }
  }
  for (const auto& handle : under_way_) handle->Wait();
  under_way_.clear();
  if (check_ != nullptr && !store_.keeps_owned_gradients()) check_->AfterScatter();
  ReduceReplicas();
  is_final_.assign(is_final_.size(), false);
  is_started_.assign(is_started_.size(), false);
}

void GradientReducer::ReduceShared(const std::vector<size_t>& parameters, bool with_tied) {
  const auto reduce_where = [&](const auto& predicate, Communicator& group) {
    std::vector<size_t> indices;
    std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(indices), predicate);
    ReduceOver(indices, group);
  };
  const int tp = context_.parallel.tensor_parallel_size;
  reduce_where([&](size_t i) { return store_.parameters()[i].sequence_parallel_gradient; },
               *context_.groups.tensor);
  reduce_where(
      [&](size_t i) {
        const spec::ParameterSpec& parameter = store_.parameters()[i];
        return !parameter.is_expert && parameter.shard.dim >= 0 && parameter.shard.num_shards < tp;
      },
      *context_.groups.kv_replica);
  if (with_tied) reduce_where([&](size_t i) { return IsTied(i); }, *context_.groups.embedding);
}

GradientReducer::Piece GradientReducer::PieceOf(size_t parameter) const {
  const spec::FlatParameter& place = store_.layout().parameters[parameter];
  if (!store_.keeps_owned_gradients()) {
    return {store_.gradients().At(place.offset), place.num_elements};
  }
  const spec::OwnedRange& own = store_.owned()[bucket_of_[parameter]];
  const int64_t begin = std::max(own.offset, place.offset);
  const int64_t end = std::min(own.offset + own.num_elements, place.offset + place.num_elements);
  if (begin >= end) return {};
  return {store_.OwnGradients(own, begin - own.offset), end - begin};
}

// Sums the gradients of the given parameters over a group: large ones where they lie, small ones
// packed.
void GradientReducer::ReduceOver(const std::vector<size_t>& parameters, Communicator& group) const {
  if (group.size() == 1) return;
  const int64_t most = MostPackedElements(context_);
  std::vector<Piece> small;
  int64_t total = 0;
  const auto flush = [&] {
    if (!small.empty()) ReducePacked(small, total, group);
    small.clear();
    total = 0;
  };
  for (const size_t i : parameters) {
    const Piece piece = PieceOf(i);
    if (piece.num_elements == 0) continue;
    if (piece.num_elements > most) {
      group.AllReduce(piece.gradients.data, piece.gradients.data, piece.num_elements,
                      piece.gradients.dtype, base::ReduceOp::kSum);
      continue;
    }
    if (total + piece.num_elements > most) flush();
    small.push_back(piece);
    total += piece.num_elements;
  }
  flush();
}

// Sums several small pieces over a group in one reduction.
void GradientReducer::ReducePacked(const std::vector<Piece>& pieces, int64_t total,
                                   Communicator& group) const {
  Buffer packed = context_.Fp32Workspace(total);
  int64_t offset = 0;
  for (const Piece& piece : pieces) {
    context_.backend.Copy(piece.gradients, packed.array().At(offset), piece.num_elements);
    offset += piece.num_elements;
  }
  group.AllReduce(packed.data(), packed.data(), total, packed.dtype(), base::ReduceOp::kSum);
  offset = 0;
  for (const Piece& piece : pieces) {
    context_.backend.Copy(packed.array().At(offset), piece.gradients, piece.num_elements);
    offset += piece.num_elements;
  }
}

void GradientReducer::StartBucket(size_t index) {
  const spec::FlatBucket& bucket = store_.layout().buckets[index];
  const kernels::Array data = store_.gradients().At(bucket.offset);
  if (context_.parallel.zero_stage == 0) {
    Communicator& group = HoldersOf(context_.groups, bucket.is_expert);
    if (group.size() == 1) return;
    under_way_.push_back(group.AllReduceAsync(data.data, data.data, bucket.num_elements, data.dtype,
                                              base::ReduceOp::kSum));
    return;
  }
  Communicator& group = ShardGroupOf(context_.groups, bucket.is_expert);
  if (group.size() == 1) return;
  const spec::OwnedRange& own = store_.owned()[index];
  if (check_ != nullptr) check_->BeforeScatter(index, data);
  under_way_.push_back(group.ReduceScatterAsync(data.data, store_.OwnGradients(own).data,
                                                own.num_elements, data.dtype,
                                                base::ReduceOp::kSum));
}

void GradientReducer::ReduceReplicas() {
  if (context_.parallel.zero_stage == 0) return;
  for (const spec::OwnedRange& own : store_.owned()) {
    Communicator* const replicas = ShardReplicasOf(context_.groups, own.is_expert);
    if (replicas == nullptr || replicas->size() == 1) continue;
    const kernels::Array data = store_.OwnGradients(own);
    under_way_.push_back(replicas->AllReduceAsync(data.data, data.data, own.num_elements,
                                                  data.dtype, base::ReduceOp::kSum));
  }
  for (const auto& handle : under_way_) handle->Wait();
  under_way_.clear();
}

}  // namespace tessera::engine
