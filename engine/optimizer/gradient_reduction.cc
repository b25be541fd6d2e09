#include "engine/optimizer/gradient_reduction.h"

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
  ReduceOver(context, store,
             IndicesWhere(store, [](const auto& p) { return p.sequence_parallel_gradient; }),
             *context.groups.tensor);
  ReduceOver(context, store,
             IndicesWhere(
                 store, [&](const auto& p) { return p.shard.dim >= 0 && p.shard.num_shards < tp; }),
             *context.groups.kv_replica);
  if (context.model.tied_embeddings) {
    ReduceOver(context, store,
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
