#include "planner/search.h"

#include <algorithm>
#include <map>

#include "cost_model/memory.h"
#include "planner/search_space.h"

namespace tessera::planner {
namespace {

struct Candidate {
  spec::ParallelSpec parallel;
  double step_time_s = 0;
};

std::vector<spec::Violation> FindRuleViolations(const Request& request,
                                                const spec::ParallelSpec& parallel) {
  const cost_model::Job& job = request.job;
  // First what no other size of an axis would change.
  std::vector<spec::Violation> violations = cost_model::FindUnpriced(job, parallel);
  if (!violations.empty()) return violations;
  return spec::FindViolations(job.model, job.training, parallel, job.num_devices);
}

// First phase: prices everything, keeps what fits, counts what does not.
class Sieve {
 public:
  Sieve(const Request& request, cost_model::JobCosts& costs) : request_(request), costs_(costs) {}

  void Visit(const spec::ParallelSpec& parallel) {
    ++result_.num_layouts;
    std::vector<spec::Violation> violations = FindRuleViolations(request_, parallel);
    if (!violations.empty()) {
      Reject(std::move(violations.front()));
      return;
    }
    const cost_model::FastPrice price = cost_model::PriceStepFast(costs_, parallel);
    if (price.fits()) {
      candidates_.push_back({parallel, price.step_time_s});
      return;
    }
    // Of the layouts that only lack memory, the one that lacks least.
    if (!nearest_ || price.needed_bytes < nearest_needed_bytes_) {
      nearest_ = parallel;
      nearest_needed_bytes_ = price.needed_bytes;
    }
    ++num_without_memory_;
  }

  std::vector<Candidate> TakeCandidates() { return std::move(candidates_); }

  // No longer counted out: its exact price tells what it lacks, or that it fits after all.
  std::optional<spec::ParallelSpec> TakeNearest() {
    if (nearest_) --num_without_memory_;
    return std::move(nearest_);
  }

  void Reject(spec::Violation violation) {
    Rejection& rejection = rejections_[violation.constraint];
    ++rejection.num_layouts;
    if (rejection.example.constraint.empty()) rejection.example = std::move(violation);
  }

  SearchResult TakeResult() {
    if (num_without_memory_ > 0) {
      rejections_[cost_model::kDeviceMemory].num_layouts += num_without_memory_;
    }
    result_.num_feasible = result_.num_layouts;
    for (auto& [constraint, rejection] : rejections_) {
      result_.num_feasible -= rejection.num_layouts;
      rejection.constraint = constraint;
      result_.rejections.push_back(std::move(rejection));
    }
    std::stable_sort(result_.rejections.begin(), result_.rejections.end(),
                     [](const auto& a, const auto& b) { return a.num_layouts > b.num_layouts; });
    return std::move(result_);
  }

 private:
  const Request& request_;
  cost_model::JobCosts& costs_;
  SearchResult result_;
  std::vector<Candidate> candidates_;
  std::map<std::string, Rejection> rejections_;
  int64_t num_without_memory_ = 0;
  std::optional<spec::ParallelSpec> nearest_;
  double nearest_needed_bytes_ = 0;
};

}  // namespace

cost_model::StepPrice PriceLayout(const Request& request, const spec::ParallelSpec& parallel,
                                  cost_model::JobCosts& costs) {
  std::vector<spec::Violation> violations = FindRuleViolations(request, parallel);
  if (!violations.empty()) return {.report = {}, .violations = std::move(violations)};
  return cost_model::PriceStep(costs, parallel);
}

SearchResult Search(const Request& request, cost_model::JobCosts& costs) {
  Sieve sieve(request, costs);
  ForEachLayout(request, [&](const spec::ParallelSpec& parallel) { sieve.Visit(parallel); });

  // Second phase. Sorting is stable: of equals the simpler, which was visited first, stays ahead.
  std::vector<Candidate> candidates = sieve.TakeCandidates();
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.step_time_s < b.step_time_s; });
  std::vector<RankedLayout> rows;
  const auto price_exactly = [&](const spec::ParallelSpec& parallel) {
    cost_model::StepPrice price = cost_model::PriceStep(costs, parallel);
    if (price.violations.empty()) {
      rows.push_back({parallel, std::move(price.report)});
    } else {
      sieve.Reject(std::move(price.violations.front()));
    }
  };
  if (const auto nearest = sieve.TakeNearest()) price_exactly(*nearest);
  const int num_exact = std::max(kNumExact, request.num_rows);
  for (const Candidate& candidate : candidates) {
    if (static_cast<int>(rows.size()) >= num_exact) break;
    price_exactly(candidate.parallel);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.report.step_time_s < b.report.step_time_s;
  });

  SearchResult result = sieve.TakeResult();
  result.rows = std::move(rows);
  return result;
}

}  // namespace tessera::planner
