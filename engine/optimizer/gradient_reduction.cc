#include "engine/optimizer/gradient_reduction.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

namespace tessera::engine {
namespace {

// Sums the gradients of several small parameters over a group in one reduction.
void ReducePacked(const LayerContext& context, const ParameterStore& store,
                  std::span<const spec::FlatParameter> parameters, int64_t total,
                  Communicator& group) {
  Buffer packed = context.Fp32Workspace(total);
  int64_t offset = 0;
  for (const spec::FlatParameter& parameter : parameters) {
    context.backend.Copy(store.gradients().At(parameter.offset), packed.array().At(offset),
                         parameter.num_elements);
    offset += parameter.num_elements;
  }
  group.AllReduce(packed.data(), packed.data(), total, packed.dtype(), base::ReduceOp::kSum);
  offset = 0;
  for (const spec::FlatParameter& parameter : parameters) {
    context.backend.Copy(packed.array().At(offset), store.gradients().At(parameter.offset),
                         parameter.num_elements);
    offset += parameter.num_elements;
  }
}

// Elements that one packed reduction holds: as many bytes as the gradient of a layer's input, less
// than any pass takes, so that the memory of a step is that of its passes.
int64_t MostPackedElements(const LayerContext& context) {
  return context.shape.local_tokens * context.shape.hidden *
         base::SizeBytes(context.types.activation) / base::SizeBytes(base::DType::kFloat32);
}

// Sums the gradients of the given parameters over a group: large ones where they lie, small ones
// packed.
void ReduceOver(const LayerContext& context, const ParameterStore& store,
                const std::vector<size_t>& indices, Communicator& group) {
  if (group.size() == 1) return;
  const int64_t most = MostPackedElements(context);
  std::vector<spec::FlatParameter> small;
  int64_t total = 0;
  const auto flush = [&] {
    if (!small.empty()) ReducePacked(context, store, small, total, group);
    small.clear();
    total = 0;
  };
  for (const size_t i : indices) {
    const spec::FlatParameter& parameter = store.layout().parameters[i];
    if (parameter.num_elements > most) {
      const kernels::Array data = store.gradients().At(parameter.offset);
      group.AllReduce(data.data, data.data, parameter.num_elements, data.dtype,
                      base::ReduceOp::kSum);
      continue;
    }
    if (total + parameter.num_elements > most) flush();
    small.push_back(parameter);
    total += parameter.num_elements;
  }
  flush();
}

std::vector<size_t> ParametersOf(const spec::FlatBucket& bucket) {
  std::vector<size_t> parameters;
  for (int i = 0; i < bucket.num_parameters; ++i) {
    parameters.push_back(static_cast<size_t>(bucket.first_parameter + i));
  }
  return parameters;
}

// The ranks that hold what a bucket holds.
Communicator& HoldersOf(const LayerContext& context, const spec::FlatBucket& bucket) {
  return bucket.is_expert ? *context.groups.expert_data : *context.groups.gradient;
}

}  // namespace

GradientReducer::GradientReducer(const LayerContext& context, const ParameterStore& store)
    : context_(context),
      store_(store),
      is_final_(store.parameters().size()),
      is_started_(store.layout().buckets.size()) {}

bool GradientReducer::ReducesAny() const {
  const std::vector<spec::FlatBucket>& buckets = store_.layout().buckets;
  return std::any_of(buckets.begin(), buckets.end(), [&](const spec::FlatBucket& bucket) {
    return HoldersOf(context_, bucket).size() > 1;
  });
}

bool GradientReducer::IsTied(size_t parameter) const {
  return context_.model.tied_embeddings &&
         store_.parameters()[parameter].name == "embedding.word.weight";
}

bool GradientReducer::IsReady(const spec::FlatBucket& bucket) const {
  const auto begin = is_final_.begin() + bucket.first_parameter;
  return std::all_of(begin, begin + bucket.num_parameters, [](bool is_final) { return is_final; });
}

void GradientReducer::OnLayerDone(int layer) {
  if (!ReducesAny()) return;
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
    StartBucket(bucket);
    is_started_[b] = true;
  }
}

void GradientReducer::Finish() {
  std::vector<size_t> left;
  for (size_t b = 0; b < is_started_.size(); ++b) {
    if (is_started_[b]) continue;
    const std::vector<size_t> parameters = ParametersOf(store_.layout().buckets[b]);
    left.insert(left.end(), parameters.begin(), parameters.end());
  }
  ReduceShared(left, /*with_tied=*/true);
  for (size_t b = 0; b < is_started_.size(); ++b) {
    if (!is_started_[b]) StartBucket(store_.layout().buckets[b]);
  }
  for (const auto& handle : under_way_) handle->Wait();
  under_way_.clear();
  is_final_.assign(is_final_.size(), false);
  is_started_.assign(is_started_.size(), false);
}

void GradientReducer::ReduceShared(const std::vector<size_t>& parameters, bool with_tied) {
  const auto reduce_where = [&](const auto& predicate, Communicator& group) {
    std::vector<size_t> indices;
    std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(indices), predicate);
    ReduceOver(context_, store_, indices, group);
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

void GradientReducer::StartBucket(const spec::FlatBucket& bucket) {
  Communicator& group = HoldersOf(context_, bucket);
  if (group.size() == 1) return;
  const kernels::Array data = store_.gradients().At(bucket.offset);
  if (context_.parallel.zero_stage == 0) {
    under_way_.push_back(group.AllReduceAsync(data.data, data.data, bucket.num_elements, data.dtype,
                                              base::ReduceOp::kSum));
    return;
  }
  const int64_t part = bucket.num_elements / group.size();
  under_way_.push_back(group.ReduceScatterAsync(data.data, data.At(group.rank() * part).data, part,
                                                data.dtype, base::ReduceOp::kSum));
}

void GatherWeights(const LayerContext& context, const ParameterStore& store) {
  if (context.parallel.zero_stage == 0) return;
  for (const spec::FlatBucket& bucket : store.layout().buckets) {
    Communicator& group = HoldersOf(context, bucket);
    if (group.size() == 1) continue;
    const kernels::Array data = store.weights().At(bucket.offset);
    const int64_t part = bucket.num_elements / group.size();
    group.AllGather(data.At(group.rank() * part).data, data.data, part, data.dtype);
  }
}

}  // namespace tessera::engine
