#include "engine/optimizer/gradient_reduction.h"

#include <vector>

namespace tessera::engine {
namespace {

// Sums the gradients of the given parameters over a group in one reduction.
void ReducePacked(const LayerContext& context, const ParameterStore& store,
                  const std::vector<size_t>& indices, Communicator& group) {
  if (group.size() == 1 || indices.empty()) return;
  int64_t total = 0;
  for (const size_t i : indices) total += store.layout().parameters[i].num_elements;
  Buffer packed = context.Fp32Workspace(total);
  int64_t offset = 0;
  for (const size_t i : indices) {
    const spec::FlatParameter& parameter = store.layout().parameters[i];
    context.backend.Copy(store.gradients().At(parameter.offset), packed.array().At(offset),
                         parameter.num_elements);
    offset += parameter.num_elements;
  }
  group.AllReduce(packed.data(), packed.data(), total, packed.dtype(), base::ReduceOp::kSum);
  offset = 0;
  for (const size_t i : indices) {
    const spec::FlatParameter& parameter = store.layout().parameters[i];
    context.backend.Copy(packed.array().At(offset), store.gradients().At(parameter.offset),
                         parameter.num_elements);
    offset += parameter.num_elements;
  }
}

template <typename Predicate>
std::vector<size_t> IndicesWhere(const ParameterStore& store, const Predicate& predicate) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < store.parameters().size(); ++i) {
    if (predicate(store.parameters()[i])) indices.push_back(i);
  }
  return indices;
}

void ReduceBuckets(const LayerContext& context, const ParameterStore& store) {
  Communicator& group = *context.groups.gradient;
  if (group.size() == 1) return;
  for (const spec::FlatBucket& bucket : store.layout().buckets) {
    const kernels::Array data = store.gradients().At(bucket.offset);
    if (context.parallel.zero_stage == 0) {
      group.AllReduce(data.data, data.data, bucket.num_elements, data.dtype, base::ReduceOp::kSum);
    } else {
      const int64_t part = bucket.num_elements / group.size();
      group.ReduceScatter(data.data, data.At(group.rank() * part).data, part, data.dtype,
                          base::ReduceOp::kSum);
    }
  }
}

}  // namespace

void ReduceGradients(const LayerContext& context, const ParameterStore& store) {
  const int tp = context.parallel.tensor_parallel_size;
  ReducePacked(context, store,
               IndicesWhere(store, [](const auto& p) { return p.sequence_parallel_gradient; }),
               *context.groups.tensor);
  ReducePacked(
      context, store,
      IndicesWhere(store,
                   [&](const auto& p) { return p.shard.dim >= 0 && p.shard.num_shards < tp; }),
      *context.groups.kv_replica);
  if (context.model.tied_embeddings) {
    ReducePacked(
        context, store,
        IndicesWhere(store, [](const auto& p) { return p.name == "embedding.word.weight"; }),
        *context.groups.embedding);
  }
  ReduceBuckets(context, store);
}

void GatherWeights(const LayerContext& context, const ParameterStore& store) {
  Communicator& group = *context.groups.gradient;
  if (group.size() == 1 || context.parallel.zero_stage == 0) return;
  for (const spec::FlatBucket& bucket : store.layout().buckets) {
    const kernels::Array data = store.weights().At(bucket.offset);
    const int64_t part = bucket.num_elements / group.size();
    group.AllGather(data.At(group.rank() * part).data, data.data, part, data.dtype);
  }
}

}  // namespace tessera::engine
