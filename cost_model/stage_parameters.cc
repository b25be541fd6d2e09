#include "cost_model/stage_parameters.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"
#include "cost_model/stage_memory.h"

namespace tessera::cost_model {
namespace {

using Parameters = std::vector<spec::ParameterSpec>;

int64_t FlatElements(const std::vector<spec::ParameterSpec>& parameters,
                     const spec::ParallelSpec& parallel) {
  return spec::MakeFlatLayout(parameters, parallel).num_elements;
}

// Elements of the parameters that `counts` picks.
template <typename Predicate>
int64_t ElementsOf(const std::vector<spec::ParameterSpec>& parameters,
                   const spec::ParallelSpec& parallel, Predicate counts) {
  int64_t elements = 0;
  for (const spec::ParameterSpec& parameter : parameters) {
    if (!counts(parameter)) continue;
    elements += spec::SliceOf(parameter, parallel.tensor_parallel_size, 0).num_elements;
  }
  return elements;
}

PartParameters CountPart(const std::vector<spec::ParameterSpec>& parameters,
                         const spec::ParallelSpec& parallel) {
  std::vector<spec::ParameterSpec> experts, others;
  for (const spec::ParameterSpec& parameter : parameters) {
    (parameter.is_expert ? experts : others).push_back(parameter);
  }
  PartParameters part;
  part.expert_elements = FlatElements(experts, parallel);
  part.elements = FlatElements(others, parallel) + part.expert_elements;
  part.tokenwise = ElementsOf(
      others, parallel, [](const auto& parameter) { return parameter.sequence_parallel_gradient; });
  part.kv_replicated = ElementsOf(others, parallel, [&](const auto& parameter) {
    return parameter.shard.dim >= 0 && parameter.shard.num_shards < parallel.tensor_parallel_size;
  });
  return part;
}

// All experts that a rank holds, from the one of each layer that its list names.
void CountAllExperts(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
                     PartParameters& part) {
  if (!model.moe) return;
  const int64_t num_local = model.moe->num_experts / parallel.expert_parallel_size;
  part.elements += (num_local - 1) * part.expert_elements;
  part.expert_elements *= num_local;
}

// No padding of buckets: alignment alone.
spec::ParallelSpec WithoutDataRanks(const spec::ParallelSpec& layout) {
  spec::ParallelSpec parallel = layout;
  parallel.data_parallel_size = 1;
  parallel.context_parallel_size = 1;
  return parallel;
}

// Of the experts that a rank holds of a layer, the list names one.
Parameters ListOneExpert(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
                         const spec::VirtualStage& stage) {
  return spec::StageParameters(model, parallel, stage, /*expert_rank=*/0, /*max_experts=*/1);
}

Parameters ListHead(const spec::ModelSpec& model, const spec::ParallelSpec& parallel) {
  Parameters head = ListOneExpert(model, parallel, {.index = 1, .has_head = true});
  // With one stage the embedding is there already.
  if (parallel.pipeline_parallel_size == 1) {
    std::erase_if(head, [](const auto& parameter) { return parameter.tied_copy; });
  }
  return head;
}

int64_t NumLocalExperts(const spec::ModelSpec& model, const spec::ParallelSpec& parallel) {
  return model.moe ? model.moe->num_experts / parallel.expert_parallel_size : 0;
}

// Elements of a list that names one expert of each layer, all of those held here counted.
// `tensor_size` is that of experts.
int64_t SumElements(const Parameters& parameters, const spec::ParallelSpec& parallel,
                    int64_t num_experts, int expert_tensor_size) {
  int64_t elements = 0;
  for (const spec::ParameterSpec& parameter : parameters) {
    const int tensor_size =
        parameter.is_expert ? expert_tensor_size : parallel.tensor_parallel_size;
    elements += (parameter.is_expert ? num_experts : 1) *
                spec::SliceOf(parameter, tensor_size, /*tensor_rank=*/0).num_elements;
  }
  return elements;
}

std::vector<spec::FlatItem> ItemsOf(const Parameters& parameters,
                                    const spec::ParallelSpec& parallel, bool of_experts) {
  Parameters group;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(group),
               [&](const auto& parameter) { return parameter.is_expert == of_experts; });
  return spec::FlatItemsOf(group, parallel);
}

// Of a layer, the embedding or the head.
PartItems MakePart(const Parameters& parameters, const spec::ParallelSpec& parallel,
                   int64_t num_experts) {
  return {.others = ItemsOf(parameters, parallel, /*of_experts=*/false),
          .num_experts = num_experts};
}

// The parts that layers of the kinds there are make up.
void AddLayers(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
               ParameterItems& items) {
  const int64_t num_local = NumLocalExperts(model, parallel);
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) {
    const spec::LayerForm form = spec::FormAt(i);
    const std::optional<int> layer = spec::FirstLayerOf(model, form);
    if (!layer) continue;
    const Parameters parameters =
        ListOneExpert(model, parallel, {.index = 1, .first_layer = *layer, .num_layers = 1});
    PartItems part = MakePart(parameters, parallel, form.has_experts ? num_local : 0);
    PartItems& known = form.has_experts ? items.expert_layer : items.dense_layer;
    TESSERA_CHECK(known.others.empty() || known.others == part.others,
                  "a window changes no parameters");
    known = std::move(part);
    if (form.has_experts) items.expert = ItemsOf(parameters, parallel, /*of_experts=*/true);
  }
}

void AddHead(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
             ParameterItems& items) {
  const int64_t num_local = NumLocalExperts(model, parallel);
  const int num_layers = model.num_multi_token_layers;
  const bool has_experts = num_layers > 0 && spec::MultiTokenLayerForm(model).has_experts;
  const Parameters head = ListHead(model, parallel);
  items.head = MakePart(head, parallel, has_experts ? num_layers * num_local : 0);
  items.head_end_elements = SumElements(head, parallel, num_local, parallel.tensor_parallel_size);
  items.head_reads_embedding = spec::HeadReadsEmbedding(model);
}

// Virtual stages that stand for all of their kinds: the layers around the last dense one.
void AddPlaceholders(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                     const spec::ParallelSpec& parallel, ParameterItems& items) {
  const int num_dense = model.moe ? std::min(model.moe->num_leading_dense_layers, model.num_layers)
                                  : model.num_layers;
  const auto set = [&](const LayerKinds& kinds, int first_layer, int num_layers) {
    items.placeholder_bytes[ParameterItems::IndexOf(kinds)] = PlaceholderBytes(
        model, training, parallel, {.first_layer = first_layer, .num_layers = num_layers});
  };
  const bool has_dense = num_dense > 0;
  const bool has_experts = num_dense < model.num_layers;
  if (has_dense) set({.has_dense = true}, num_dense - 1, 1);
  if (has_experts) set({.has_experts = true}, num_dense, 1);
  if (has_dense && has_experts) set({.has_dense = true, .has_experts = true}, num_dense - 1, 2);
}

// Places the parts of a rank where each is a bucket, or all of them one after the other.
class PartPlacer {
 public:
  PartPlacer(const ParameterItems& items, const spec::ParallelSpec& parallel, Padding padding)
      : items_(items), parallel_(parallel), padding_(padding) {}

  spec::FlatPlacer MakePlacer(bool is_expert) const {
    return {parallel_, padding_ == Padding::kNone ? spec::kFlatAlignmentElements
                                                  : spec::BucketMultiple(parallel_, is_expert)};
  }

  int64_t ExpertElements(int64_t num_experts) const {
    if (num_experts == 0) return 0;
    const int64_t num_layers = num_experts / items_.expert_layer.num_experts;
    const bool by_layer = spec::ReducesEachMicrobatch(parallel_);
    spec::FlatPlacer placer = MakePlacer(/*is_expert=*/true);
    placer.PlaceTimes({ExpertsOfLayer()}, by_layer ? 1 : num_layers);
    return placer.Finish() * (by_layer ? num_layers : 1);
  }

  // The fields of `elements` that spec::StateElementsOf fills for parts.
  void AddParts(const RankLayers& layers, spec::StateElements& elements) const {
    const auto add = [&](int64_t part, bool is_layer) {
      elements.largest_part = std::max(elements.largest_part, part);
      if (is_layer) elements.largest_layer = std::max(elements.largest_layer, part);
    };
    if (layers.has_embedding) {
      const int64_t embedding = PartSizes(items_.embedding).front();
      if (layers.has_head && items_.head_reads_embedding) {
        elements.shared_embedding = embedding;
      } else {
        add(embedding, /*is_layer=*/false);
      }
    }
    if (layers.num_dense > 0) add(PartSizes(items_.dense_layer).front(), true);
    if (layers.num_with_experts > 0) add(PartSizes(items_.expert_layer).front(), true);
    if (!layers.has_head) return;
    const std::vector<int64_t> head = PartSizes(items_.head);
    for (size_t i = 0; i < head.size(); ++i) add(head[i], /*is_layer=*/i > 0);
  }

 private:
  // The experts of a layer as one item, as no bucket cuts them.
  spec::FlatItem ExpertsOfLayer() const {
    int64_t one = 0;
    for (const spec::FlatItem& item : items_.expert) {
      if (!item.packed_with_previous) one = base::RoundUp(one, spec::kFlatAlignmentElements);
      one += item.num_elements;
    }
    const int64_t distance = base::RoundUp(one, spec::kFlatAlignmentElements);
    return {.num_elements = (items_.expert_layer.num_experts - 1) * distance + one};
  }

  // Of the parts that the list names, what is sharded, experts included. Of the head these are
  // itself and its multi-token layers, which have all its experts.
  std::vector<int64_t> PartSizes(const PartItems& items) const {
    std::vector<int64_t> sizes;
    const bool is_sharded = spec::IsSharded(/*is_expert=*/false, parallel_);
    for (size_t i = 0; i < items.others.size();) {
      spec::FlatPlacer placer = MakePlacer(/*is_expert=*/false);
      do {
        placer.Place(items.others[i++]);
      } while (i < items.others.size() && !items.others[i].starts_part);
      sizes.push_back(is_sharded ? placer.Finish() : 0);
    }
    if (!spec::IsSharded(/*is_expert=*/true, parallel_) || items.num_experts == 0) return sizes;
    const size_t first = sizes.size() > 1 ? 1 : 0;
    for (size_t i = first; i < sizes.size(); ++i) {
      sizes[i] += ExpertElements(items_.expert_layer.num_experts);
    }
    return sizes;
  }

  const ParameterItems& items_;
  const spec::ParallelSpec& parallel_;
  const Padding padding_;
};

}  // namespace

ParameterCounts MakeParameterCounts(const spec::ModelSpec& model,
                                    const spec::ParallelSpec& layout) {
  const spec::ParallelSpec parallel = WithoutDataRanks(layout);
  const auto list = [&](const spec::VirtualStage& stage) {
    return ListOneExpert(model, parallel, stage);
  };
  ParameterCounts counts;
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) {
    const std::optional<int> layer = spec::FirstLayerOf(model, spec::FormAt(i));
    if (!layer) continue;
    counts.layers[i] = CountPart(list({.first_layer = *layer, .num_layers = 1}), parallel);
    CountAllExperts(model, parallel, counts.layers[i]);
  }
  counts.embedding = CountPart(list({.has_embedding = true}), parallel);
  auto head = list({.index = 1, .has_head = true});
  const auto is_tied_copy = [](const auto& parameter) { return parameter.tied_copy; };
  if (parallel.pipeline_parallel_size == 1) std::erase_if(head, is_tied_copy);
  counts.head = CountPart(head, parallel);
  CountAllExperts(model, parallel, counts.head);
  counts.tied_embedding = ElementsOf(head, parallel, is_tied_copy);
  return counts;
}

ParameterItems MakeParameterItems(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                                  const spec::ParallelSpec& layout) {
  const spec::ParallelSpec parallel = WithoutDataRanks(layout);
  ParameterItems items;
  AddLayers(model, parallel, items);
  const Parameters embedding = ListOneExpert(model, parallel, {.has_embedding = true});
  items.embedding = MakePart(embedding, parallel, 0);
  items.embedding_end_elements = SumElements(embedding, parallel, 0, 1);
  AddHead(model, parallel, items);
  AddPlaceholders(model, training, parallel, items);
  return items;
}

spec::StateElements MakeStateElements(const ParameterItems& items, const RankLayers& layers,
                                      const spec::ParallelSpec& parallel, Padding padding) {
  const PartPlacer placer(items, parallel, padding);
  spec::FlatPlacer others = placer.MakePlacer(/*is_expert=*/false);
  int64_t num_experts = 0;
  const auto add = [&](const PartItems& part, int times) {
    if (times == 0) return;
    others.PlaceTimes(part.others, times);
    num_experts += times * part.num_experts;
  };
  add(items.embedding, layers.has_embedding ? 1 : 0);
  add(items.dense_layer, layers.num_dense);
  add(items.expert_layer, layers.num_with_experts);
  add(items.head, layers.has_head ? 1 : 0);
  spec::StateElements elements;
  elements.expert_elements = placer.ExpertElements(num_experts);
  elements.elements = others.Finish() + elements.expert_elements;
  if (spec::ReducesEachMicrobatch(parallel)) placer.AddParts(layers, elements);
  return elements;
}

}  // namespace tessera::cost_model
