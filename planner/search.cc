#include "planner/search.h"

#include <algorithm>
#include <map>

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
  std::vector<spec::Violation> violations = cost_model::FindUnpriced(job.model, parallel);
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
    if (!result_.nearest || price.needed_bytes < result_.nearest_needed_bytes) {
      result_.nearest = parallel;
      result_.nearest_needed_bytes = price.needed_bytes;
    }
    ++num_without_memory_;
  }

  std::vector<Candidate> TakeCandidates() { return std::move(candidates_); }

  // Layouts that the exact price finds too large after all.
  void RejectForMemory() { ++num_without_memory_; }

  SearchResult TakeResult() {
    if (num_without_memory_ > 0) {
      rejections_["device memory"].num_layouts = num_without_memory_;
      if (result_.nearest) {
        const auto price = cost_model::PriceStep(costs_, *result_.nearest);
        if (!price.violations.empty()) {
          rejections_["device memory"].example = price.violations.front();
        }
      }
    }
    for (auto& [constraint, rejection] : rejections_) {
      rejection.constraint = constraint;
      result_.rejections.push_back(std::move(rejection));
    }
    std::stable_sort(result_.rejections.begin(), result_.rejections.end(),
                     [](const auto& a, const auto& b) { return a.num_layouts > b.num_layouts; });
    return std::move(result_);
  }

 private:
  void Reject(spec::Violation violation) {
    Rejection& rejection = rejections_[violation.constraint];
    if (rejection.num_layouts++ == 0) rejection.example = std::move(violation);
  }

  const Request& request_;
  cost_model::JobCosts& costs_;
  SearchResult result_;
  std::vector<Candidate> candidates_;
  std::map<std::string, Rejection> rejections_;
  int64_t num_without_memory_ = 0;
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
  const auto num_feasible = static_cast<int64_t>(candidates.size());
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.step_time_s < b.step_time_s; });
  const int num_exact = std::max(kNumExact, request.num_rows);
  std::vector<RankedLayout> rows;
  int64_t num_too_large = 0;
  for (const Candidate& candidate : candidates) {
    if (static_cast<int>(rows.size()) == num_exact) break;
    cost_model::StepPrice price = cost_model::PriceStep(costs, candidate.parallel);
    if (price.violations.empty()) {
      rows.push_back({candidate.parallel, std::move(price.report)});
    } else {
      ++num_too_large;
      sieve.RejectForMemory();
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.report.step_time_s < b.report.step_time_s;
  });

  SearchResult result = sieve.TakeResult();
  result.rows = std::move(rows);
  result.num_feasible = num_feasible - num_too_large;
  return result;
}

}  // namespace tessera::planner
