// Brings parameters together that several ranks update.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

// ZeRO stages 1 and 2 gather every bucket after the update: at once, or with overlap_param_gather
// behind the next forward pass, whose parts wait for their own buckets. Stage 3 gathers a part
// before each pass through it, and the next part while that one computes (Zhao et al. 2023,
// arXiv:2304.11277, section 3.3.2). Its backward pass gathers the layers again; the head it finds
// as the forward pass left it, where that was the last one.
class ParameterGatherer {
 public:
  // All must outlive it. `waits` takes what passes wait.
  ParameterGatherer(const LayerContext& context, const ParameterStore& store, SpanLog& waits);
  // Waits for what is under way, unless an error unwinds.
  ~ParameterGatherer();

  void BeforeForward(int part);
  void BeforeBackward(int part);
  // The owned weights have changed. `is_last`: no forward pass follows.
  void AfterUpdate(bool is_last);
  // All weights that are kept for good are those of the last update.
  void WaitForAll();

 private:
  using Handles = std::vector<std::unique_ptr<CommHandle>>;

  void Start(size_t bucket, Handles& handles) const;
  void StartPart(const Part& part);
  // Makes a part whole; what is so already is gathered `again`, unless it is under way.
  void Need(const Part* part, bool again);
  void Prefetch(const Part* part);
  static void Wait(Handles& handles);

  const LayerContext& context_;
  const ParameterStore& store_;
  SpanLog& waits_;
  std::vector<size_t> order_;  // of buckets, as a forward pass needs them
  std::map<int, Handles> parts_under_way_;
  std::vector<const Part*> whole_;          // by slot
  std::vector<Handles> buckets_under_way_;  // after an update
};

}  // namespace tessera::engine
