#include "planner/family_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cost_model/memory.h"
#include "cost_model/step_memory.h"
#include "planner/fewest_recomputed.h"
#include "planner/target.h"

namespace tessera::planner {
namespace {

constexpr double kRounding = 1e-9;

}  // namespace

void SearchCounts::Reject(const spec::Violation& violation, int64_t num_layouts) {
  Rejection& rejection = rejections_[violation.constraint];
  rejection.num_layouts += num_layouts;
  if (rejection.example.constraint.empty()) rejection.example = violation;
}

SearchResult SearchCounts::TakeResult() {
  SearchResult result;
  result.num_priced = num_priced;
  result.num_pruned = num_pruned;
  result.num_layouts = num_priced + num_pruned;
  for (auto& [constraint, rejection] : rejections_) {
    result.num_layouts += rejection.num_layouts;
    rejection.constraint = constraint;
    result.rejections.push_back(std::move(rejection));
  }
  std::stable_sort(result.rejections.begin(), result.rejections.end(),
                   [](const auto& a, const auto& b) { return a.num_layouts > b.num_layouts; });
  return result;
}

FamilySearch::ZeroStages FamilySearch::FindZeroStages(const MeshSpace& mesh, const Family& family,
                                                      spec::ParallelSpec layout) {
  layout.layers_per_virtual_stage = request_.fixed.layers_per_virtual_stage;
  // At best all layers are recomputed.
  const bool may_be_all = family.choice.recompute == RecomputeChoice::kSome;
  SetRecompute(request_, may_be_all ? RecomputeChoice::kFull : family.choice.recompute, 0, layout);
  layout.recomputed_layers_per_virtual_stage.clear();
  const auto& partitions = Partitions(layout.pipeline_parallel_size * layout.virtual_pipeline_size);
  const auto [fewest, is_new] =
      fewest_.try_emplace({layout.pipeline_parallel_size, layout.virtual_pipeline_size});
  if (is_new) fewest->second = FewestLayers(request_.job.model, layout, partitions);
  ZeroStages may_fit;
  ZeroStages seen;
  for (const PlacedFinish& placed : mesh.finishes) {
    layout.zero_stage = placed.finish.zero_stage;
    if (seen.test(layout.zero_stage)) continue;
    seen.set(layout.zero_stage);
    ZeroStages alone;
    alone.set(layout.zero_stage);
    const int64_t num_layouts = NumFinishes(mesh, alone) * static_cast<int64_t>(partitions.size());
    if (const auto violation = FindEngineViolation(request_, layout)) {
      counts_.Reject(*violation, num_layouts);
      continue;
    }
    const double needed_bytes = NeededBound(costs_, layout, fewest->second, EnoughBytes());
    if (needed_bytes <= AvailableBytes()) {
      may_fit.set(layout.zero_stage);
      continue;
    }
    RejectForMemory(layout, needed_bytes, num_layouts);
  }
  return may_fit;
}

int64_t FamilySearch::NumFinishes(const MeshSpace& mesh, ZeroStages zero_stages) {
  return std::count_if(mesh.finishes.begin(), mesh.finishes.end(), [&](const PlacedFinish& placed) {
    return zero_stages.test(placed.finish.zero_stage);
  });
}

void FamilySearch::Open(const MeshSpace& mesh, const Family& family) {
  spec::ParallelSpec layout = mesh.layout;
  Apply(family.choice, request_, layout);
  const ZeroStages zero_stages = FindZeroStages(mesh, family, layout);
  if (zero_stages.none()) return;
  const std::vector<double> bounds_s = PartitionBounds(mesh, family, zero_stages, layout);
  for (size_t i = 0; i < bounds_s.size(); ++i) {
    candidates_.push({.bound_s = bounds_s[i],
                      .order = family.order,
                      .mesh = &mesh,
                      .family = &family,
                      .zero_stages = zero_stages,
                      .partition = static_cast<int>(i)});
  }
}

std::vector<double> FamilySearch::PartitionBounds(const MeshSpace& mesh, const Family& family,
                                                  ZeroStages zero_stages,
                                                  spec::ParallelSpec layout) {
  const bool may_keep_all = family.choice.recompute == RecomputeChoice::kSome;
  const auto& partitions = Partitions(layout.pipeline_parallel_size * layout.virtual_pipeline_size);
  std::vector<PartitionBound> bounds;
  double window_s = 0;
  for (const std::vector<int>& layers : partitions) {
    layout.layers_per_virtual_stage = layers;
    SetRecompute(request_, may_keep_all ? RecomputeChoice::kNone : family.choice.recompute, 0,
                 layout);
    bounds.push_back(PartitionTimeBound(costs_, layout));
    window_s = std::max(window_s, bounds.back().first_backward_s);
  }
  // Layers that may be recomputed make the pass longer.
  if (may_keep_all || !layout.recomputed_layers_per_virtual_stage.empty()) window_s = kNever;
  const double end_s = EndBound(mesh, zero_stages, layout, window_s);
  std::vector<double> bounds_s;
  for (const PartitionBound& bound : bounds) {
    bounds_s.push_back(std::max(family.bound_s, bound.time_s + end_s));
  }
  return bounds_s;
}

double FamilySearch::EndBound(const MeshSpace& mesh, ZeroStages zero_stages,
                              spec::ParallelSpec layout, double window_s) {
  const StageForms& fewest =
      fewest_.at({layout.pipeline_parallel_size, layout.virtual_pipeline_size});
  double least_s = kNever;
  for (const PlacedFinish& placed : mesh.finishes) {
    if (!zero_stages.test(placed.finish.zero_stage)) continue;
    layout.zero_stage = placed.finish.zero_stage;
    layout.overlap_param_gather = placed.finish.overlap_param_gather;
    least_s = std::min(least_s, EndTimeBound(costs_, layout, fewest, window_s));
  }
  return least_s * (1 - kRounding);
}

const std::vector<std::vector<int>>& FamilySearch::Partitions(int num_virtual_stages) {
  std::vector<std::vector<int>>& known = partitions_[num_virtual_stages];
  if (known.empty()) known = PartitionsOf(request_, num_virtual_stages);
  return known;
}

void FamilySearch::PricePartition(const Candidate& candidate) {
  spec::ParallelSpec layout = candidate.mesh->layout;
  Apply(candidate.family->choice, request_, layout);
  const int num_stages = layout.pipeline_parallel_size * layout.virtual_pipeline_size;
  layout.layers_per_virtual_stage = Partitions(num_stages)[candidate.partition];
  for (layout.zero_stage = 0; !candidate.zero_stages.test(layout.zero_stage);) ++layout.zero_stage;
  if (auto violation = FindRuleViolation(request_, layout)) {
    counts_.Reject(*violation, NumFinishes(*candidate.mesh, candidate.zero_stages));
    return;
  }
  for (size_t stage = 0; stage < candidate.zero_stages.size(); ++stage) {
    if (!candidate.zero_stages.test(stage)) continue;
    layout.zero_stage = static_cast<int>(stage);
    PriceFinishes(candidate, layout);
  }
}

void FamilySearch::PriceFinishes(const Candidate& candidate, spec::ParallelSpec layout) {
  ZeroStages alone;
  alone.set(layout.zero_stage);
  const int64_t num_finishes = NumFinishes(*candidate.mesh, alone);
  const RecomputeChoice recompute = candidate.family->choice.recompute;
  if (recompute != RecomputeChoice::kSome) {
    SetRecompute(request_, recompute, 0, layout);
  } else if (!SetFewestRecomputed(layout, num_finishes)) {
    return;
  }
  const double needed_bytes =
      cost_model::StepBytesOf(costs_, layout, cost_model::MakeStepLayers(request_.job, layout),
                              cost_model::Padding::kOfBuckets, EnoughBytes())
          .needed_bytes;
  if (needed_bytes > AvailableBytes()) {
    RejectForMemory(layout, needed_bytes, num_finishes);
    return;
  }
  const auto num_partitions = static_cast<int64_t>(
      Partitions(layout.pipeline_parallel_size * layout.virtual_pipeline_size).size());
  // Where memory decides, each partition counts; else the fastest stands for all.
  const bool keeps_all = request_.objective == Objective::kMemory;
  for (const PlacedFinish& placed : candidate.mesh->finishes) {
    if (placed.finish.zero_stage != layout.zero_stage) continue;
    layout.overlap_param_gather = placed.finish.overlap_param_gather;
    Candidate next = candidate;
    next.bound_s = ExactTimeBound(costs_, pricer_.StepSeconds(layout));
    if (next.bound_s > ranking_.LongestStep()) {
      ++counts_.num_priced;
      continue;
    }
    next.order += placed.place * num_partitions + (keeps_all ? candidate.partition : 0);
    next.priced = static_cast<int>(priced_.size());
    priced_.push_back({layout, needed_bytes});
    candidates_.push(next);
  }
}

bool FamilySearch::SetFewestRecomputed(spec::ParallelSpec& layout, int64_t num_layouts) {
  FewestRecomputed fewest = FindFewestRecomputed(request_, costs_, layout, EnoughBytes());
  if (fewest.fits_without) {
    counts_.num_pruned += num_layouts;  // another family has that layout
    return false;
  }
  layout.recompute = spec::Recompute::kFull;
  layout.recomputed_layers_per_virtual_stage = std::move(fewest.layers);
  if (!fewest.fits) RejectForMemory(layout, fewest.needed_bytes, num_layouts);
  return fewest.fits;
}

double FamilySearch::NextBound() const {
  return candidates_.empty() ? kNever : candidates_.top().bound_s;
}

void FamilySearch::Advance() {
  const Candidate candidate = candidates_.top();
  candidates_.pop();
  if (candidate.priced == kNotPriced) {
    PricePartition(candidate);
  } else {
    Rank(candidate);
  }
}

void FamilySearch::Rank(const Candidate& candidate) {
  constexpr double kTie = 1e-8;
  ++counts_.num_priced;
  const auto known = best_s_.find(candidate.order);
  // Another partition of the same layout may be as fast.
  if (known != best_s_.end() && candidate.bound_s > known->second * (1 - kTie)) return;
  const Priced& priced = priced_[candidate.priced];
  const double step_time_s = cost_model::StepSeconds(costs_, priced.layout);
  if (known != best_s_.end() && step_time_s >= known->second) return;
  best_s_[candidate.order] = step_time_s;
  ranking_.Add({.parallel = priced.layout,
                .step_time_s = step_time_s,
                .needed_bytes = priced.needed_bytes,
                .order = candidate.order});
}

void FamilySearch::RejectForMemory(const spec::ParallelSpec& layout, double needed_bytes,
                                   int64_t num_layouts) {
  num_without_memory_ += num_layouts;
  if (nearest_ && needed_bytes >= nearest_needed_bytes_) return;
  nearest_ = layout;
  nearest_needed_bytes_ = needed_bytes;
}

void FamilySearch::CountTheRest() {
  for (; !candidates_.empty(); candidates_.pop()) {
    const Candidate& left = candidates_.top();
    if (left.priced != kNotPriced) {
      ++counts_.num_priced;
    } else {
      counts_.num_pruned += NumFinishes(*left.mesh, left.zero_stages);
    }
  }
  if (!nearest_) return;
  const cost_model::StepPrice price = cost_model::PriceStep(costs_, *nearest_);
  spec::Violation violation{.constraint = cost_model::kDeviceMemory};
  if (!price.violations.empty()) violation = price.violations.front();
  counts_.Reject(violation, num_without_memory_);
}

}  // namespace tessera::planner
