#include "engine/optimizer/parameter_gathering.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>

#include "cost_model/base/error.h"
#include "engine/optimizer/holders.h"

namespace tessera::engine {
namespace {

// When a forward pass comes to a part.
int GatherTurnOf(int part) {
  if (part == spec::kEmbeddingPart) return -1;
  return part == spec::kHeadPart ? std::numeric_limits<int>::max() : part;
}

}  // namespace

ParameterGatherer::ParameterGatherer(const LayerContext& context, const ParameterStore& store,
                                     SpanLog& waits)
    : context_(context),
      store_(store),
      waits_(waits),
      order_(store.layout().buckets.size()),
      whole_(kNumPartSlots),
      buckets_under_way_(order_.size()) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  const auto turn_of = [&](size_t bucket) {
    const auto first = static_cast<size_t>(store.layout().buckets[bucket].first_parameter);
    return GatherTurnOf(store.parameters()[first].layer);
  };
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return turn_of(a) < turn_of(b); });
}

ParameterGatherer::~ParameterGatherer() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    WaitForAll();
  } catch (const base::CommError&) {
    // The world has failed, which its other users tell.
  }
}

void ParameterGatherer::BeforeForward(int part) {
  for (size_t b = 0; b < order_.size(); ++b) {
    if (buckets_under_way_[b].empty()) continue;
    const spec::FlatBucket& bucket = store_.layout().buckets[b];
    for (int i = bucket.first_parameter; i < bucket.first_parameter + bucket.num_parameters; ++i) {
      if (store_.parameters()[static_cast<size_t>(i)].layer != part) continue;
      waits_.Run([&] { Wait(buckets_under_way_[b]); });
      break;
    }
  }
  if (!store_.keeps_owned_weights()) return;
  const Part* const current = store_.parts().Find(part);
  Need(current, /*again=*/true);
  if (current != nullptr && current->next) Prefetch(store_.parts().Find(*current->next));
}

void ParameterGatherer::BeforeBackward(int part) {
  if (!store_.keeps_owned_weights() || part == spec::kEmbeddingPart) return;
  const PartTable& parts = store_.parts();
  const bool is_layer = part >= 0;
  const Part* const current = parts.Find(part);
  if (!is_layer && parts.shares_embedding()) {
    Need(parts.Find(spec::kEmbeddingPart), /*again=*/false);
  }
  Need(current, /*again=*/is_layer);
  for (const auto& [number, before] : parts.parts()) {
    if (current != nullptr && number >= 0 && before.next == part) Prefetch(&before);
  }
}

void ParameterGatherer::AfterUpdate(bool is_last) {
  if (store_.keeps_owned_weights() || context_.parallel.zero_stage == 0) return;
  for (const size_t bucket : order_) {
    Start(bucket, buckets_under_way_[bucket]);
    if (is_last || !context_.parallel.overlap_param_gather) Wait(buckets_under_way_[bucket]);
  }
}

void ParameterGatherer::WaitForAll() {
  for (Handles& handles : buckets_under_way_) Wait(handles);
  for (auto& [part, handles] : parts_under_way_) Wait(handles);
}

void ParameterGatherer::Start(size_t bucket, Handles& handles) const {
  const spec::OwnedRange& own = store_.owned()[bucket];
  Communicator& group = ShardGroupOf(context_.groups, own.is_expert);
  if (group.size() == 1) return;
  const kernels::Array from = store_.OwnWeights(own);
  handles.push_back(group.AllGatherAsync(from.data, store_.WholeWeights(bucket).data,
                                         own.num_elements, from.dtype));
}

void ParameterGatherer::StartPart(const Part& part) {
  for (const size_t bucket : part.buckets) Start(bucket, parts_under_way_[part.number]);
  whole_[static_cast<size_t>(part.slot)] = &part;
}

void ParameterGatherer::Need(const Part* part, bool again) {
  if (part == nullptr) return;
  Handles& handles = parts_under_way_[part->number];
  const bool is_whole = whole_[static_cast<size_t>(part->slot)] == part;
  if (handles.empty() && is_whole && !again) return;
  waits_.Run([&] {
    if (handles.empty()) StartPart(*part);
    Wait(handles);
  });
}

void ParameterGatherer::Prefetch(const Part* part) {
  if (part != nullptr && parts_under_way_[part->number].empty()) StartPart(*part);
}

void ParameterGatherer::Wait(Handles& handles) {
  for (const auto& handle : handles) handle->Wait();
  handles.clear();
}

}  // namespace tessera::engine
