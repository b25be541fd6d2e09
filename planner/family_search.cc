#include "planner/family_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cost_model/memory.h"

namespace tessera::planner {
namespace {

int MostLayersOfAStage(const spec::ModelSpec& model, const spec::ParallelSpec& layout) {
  const std::vector<int>& layers = layout.layers_per_virtual_stage;
  if (!layers.empty()) return *std::max_element(layers.begin(), layers.end());
  const int num_stages = layout.pipeline_parallel_size * layout.virtual_pipeline_size;
  return (model.num_layers + num_stages - 1) / num_stages;
}

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

bool FamilySearch::IsOut(const Family& family, spec::ParallelSpec layout, int64_t num_layouts) {
  layout.layers_per_virtual_stage = request_.fixed.layers_per_virtual_stage;
  const auto violation = FindRuleViolation(request_, layout);
  if (violation && violation->constraint == "target zero stage") {
    counts_.Reject(*violation, num_layouts);
    return true;
  }
  // At best all layers are recomputed.
  const bool may_be_all = family.choice.recompute == RecomputeChoice::kSome;
  SetRecompute(request_, may_be_all ? RecomputeChoice::kFull : family.choice.recompute, 0, layout);
  layout.recomputed_layers_per_virtual_stage.clear();
  const auto [fewest, is_new] =
      fewest_.try_emplace({layout.pipeline_parallel_size, layout.virtual_pipeline_size});
  if (is_new) {
    fewest->second =
        FewestLayers(request_.job.model, layout,
                     Partitions(layout.pipeline_parallel_size * layout.virtual_pipeline_size));
  }
  const double needed_bytes = NeededBound(costs_, layout, fewest->second);
  if (needed_bytes <= AvailableBytes()) return false;
  RejectForMemory(layout, needed_bytes, num_layouts);
  return true;
}

void FamilySearch::Open(const spec::ParallelSpec& mesh, const Family& family) {
  spec::ParallelSpec layout = mesh;
  Apply(family.choice, request_, layout);
  const auto& partitions = Partitions(layout.pipeline_parallel_size * layout.virtual_pipeline_size);
  const auto num_partitions = static_cast<int64_t>(partitions.size());
  std::vector<double> bounds_s;  // by partition, once a finish needs them
  int64_t order = family.order;
  for (const Finish& finish : FinishesOf(request_, mesh)) {
    layout.zero_stage = finish.zero_stage;
    layout.overlap_param_gather = finish.overlap_param_gather;
    if (!IsOut(family, layout, num_partitions)) {
      if (bounds_s.empty()) bounds_s = PartitionBounds(family, layout);
      for (int64_t i = 0; i < num_partitions; ++i) {
        // Where memory decides, each partition counts; else the fastest stands for all.
        const bool keeps_all = request_.objective == Objective::kMemory;
        candidates_.push({.bound_s = bounds_s[i],
                          .order = order + (keeps_all ? i : 0),
                          .mesh = &mesh,
                          .family = &family,
                          .finish = finish,
                          .partition = static_cast<int>(i)});
      }
    }
    order += num_partitions;
  }
}

std::vector<double> FamilySearch::PartitionBounds(const Family& family, spec::ParallelSpec layout) {
  const bool may_keep_all = family.choice.recompute == RecomputeChoice::kSome;
  std::vector<double> bounds_s;
  for (const std::vector<int>& layers :
       Partitions(layout.pipeline_parallel_size * layout.virtual_pipeline_size)) {
    layout.layers_per_virtual_stage = layers;
    SetRecompute(request_, may_keep_all ? RecomputeChoice::kNone : family.choice.recompute, 0,
                 layout);
    bounds_s.push_back(std::max(family.bound_s, PartitionTimeBound(costs_, layout)));
  }
  return bounds_s;
}

const std::vector<std::vector<int>>& FamilySearch::Partitions(int num_virtual_stages) {
  std::vector<std::vector<int>>& known = partitions_[num_virtual_stages];
  if (known.empty()) known = PartitionsOf(request_, num_virtual_stages);
  return known;
}

void FamilySearch::PriceFast(Candidate candidate) {
  const FamilyChoice& choice = candidate.family->choice;
  spec::ParallelSpec layout = *candidate.mesh;
  Apply(choice, request_, layout);
  layout.zero_stage = candidate.finish.zero_stage;
  layout.overlap_param_gather = candidate.finish.overlap_param_gather;
  const int num_stages = layout.pipeline_parallel_size * layout.virtual_pipeline_size;
  layout.layers_per_virtual_stage = Partitions(num_stages)[candidate.partition];
  if (auto violation = FindRuleViolation(request_, layout)) {
    counts_.Reject(*violation, 1);
    return;
  }
  if (choice.recompute == RecomputeChoice::kSome) {
    if (!SetFewestRecomputed(layout)) return;
  } else {
    SetRecompute(request_, choice.recompute, 0, layout);
  }
  const cost_model::FastPrice price = cost_model::PriceStepFast(costs_, layout);
  const double needed_bytes = ExactNeededBound(costs_, layout, price);
  if (needed_bytes > AvailableBytes()) {
    RejectForMemory(layout, needed_bytes);
    return;
  }
  candidate.bound_s = ExactTimeBound(costs_, price);
  candidate.priced = static_cast<int>(priced_.size());
  priced_.push_back(std::move(layout));
  candidates_.push(candidate);
}

bool FamilySearch::MayFit(const spec::ParallelSpec& layout) {
  const cost_model::FastPrice price = cost_model::PriceStepFast(costs_, layout);
  return ExactNeededBound(costs_, layout, price) <= AvailableBytes();
}

bool FamilySearch::SetFewestRecomputed(spec::ParallelSpec& layout) {
  const int most = MostLayersOfAStage(request_.job.model, layout);
  layout.recompute = spec::Recompute::kNone;
  if (most < 2 || MayFit(layout)) {
    ++counts_.num_pruned;  // nothing needs recomputing: another family has that layout
    return false;
  }
  SetRecompute(request_, RecomputeChoice::kSome, most - 1, layout);
  if (!MayFit(layout)) {
    const cost_model::FastPrice price = cost_model::PriceStepFast(costs_, layout);
    RejectForMemory(layout, ExactNeededBound(costs_, layout, price));
    return false;
  }
  int too_few = 0;
  int enough = most - 1;
  while (enough - too_few > 1) {
    const int middle = (too_few + enough) / 2;
    SetRecompute(request_, RecomputeChoice::kSome, middle, layout);
    (MayFit(layout) ? enough : too_few) = middle;
  }
  SetRecompute(request_, RecomputeChoice::kSome, enough, layout);
  if (request_.job.runtime.per_stage_recompute) ReduceByStage(layout);
  return true;
}

void FamilySearch::ReduceByStage(spec::ParallelSpec& layout) {
  // A stage's memory depends on its own layers alone, so each is reduced by itself.
  std::vector<int>& recomputed = layout.recomputed_layers_per_virtual_stage;
  for (int& count : recomputed) {
    int too_few = -1;
    int enough = count;
    while (enough - too_few > 1) {
      count = (too_few + enough) / 2;
      (MayFit(layout) ? enough : too_few) = count;
    }
    count = enough;
  }
}

double FamilySearch::NextBound() const {
  return candidates_.empty() ? std::numeric_limits<double>::infinity() : candidates_.top().bound_s;
}

void FamilySearch::Advance() {
  const Candidate candidate = candidates_.top();
  candidates_.pop();
  if (candidate.priced == kNotPriced) {
    PriceFast(candidate);
  } else {
    PriceAndRank(candidate);
  }
}

void FamilySearch::PriceAndRank(const Candidate& candidate) {
  constexpr double kRounding = 1e-8;
  const auto known = best_s_.find(candidate.order);
  if (known != best_s_.end() && candidate.bound_s > known->second * (1 - kRounding)) {
    ++counts_.num_priced;  // another partition of the same layout is as fast
    return;
  }
  const bool recomputes_some = candidate.family->choice.recompute == RecomputeChoice::kSome;
  std::optional<RankedLayout> priced =
      PriceExactly(std::move(priced_[candidate.priced]), recomputes_some);
  if (!priced) return;
  const double step_time_s = priced->report.step_time_s;
  if (known == best_s_.end() || step_time_s < known->second) {
    best_s_[candidate.order] = step_time_s;
    ranking_.Add(*std::move(priced), candidate.order);
  }
}

std::optional<RankedLayout> FamilySearch::PriceExactly(spec::ParallelSpec layout,
                                                       bool recomputes_some) {
  cost_model::StepPrice price = cost_model::PriceStep(costs_, layout);
  const int most = MostLayersOfAStage(request_.job.model, layout);
  if (!price.violations.empty() && recomputes_some) {
    // The bound was too hopeful: more layers, the same number on every stage.
    const std::vector<int>& recomputed = layout.recomputed_layers_per_virtual_stage;
    int too_few = *std::max_element(recomputed.begin(), recomputed.end());
    for (int enough = most; enough - too_few > 1;) {
      const int middle = (too_few + enough) / 2;
      spec::ParallelSpec more = layout;
      SetRecompute(request_, RecomputeChoice::kSome, middle, more);
      cost_model::StepPrice priced = cost_model::PriceStep(costs_, more);
      if (!priced.violations.empty()) {
        too_few = middle;
        continue;
      }
      enough = middle;
      layout = std::move(more);
      price = std::move(priced);
    }
  }
  if (!price.violations.empty()) {
    counts_.Reject(price.violations.front(), 1);
    return std::nullopt;
  }
  ++counts_.num_priced;
  return RankedLayout{std::move(layout), std::move(price.report)};
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
    const bool is_priced = candidates_.top().priced != kNotPriced;
    ++(is_priced ? counts_.num_priced : counts_.num_pruned);
  }
  if (!nearest_) return;
  const cost_model::StepPrice price = cost_model::PriceStep(costs_, *nearest_);
  spec::Violation violation{.constraint = cost_model::kDeviceMemory};
  if (!price.violations.empty()) violation = price.violations.front();
  counts_.Reject(violation, num_without_memory_);
}

}  // namespace tessera::planner
