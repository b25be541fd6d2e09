// The part of a search below its families: layouts that differ in how a step ends, in the layers of
// their stages, and, where only some layers are recomputed, in which.
#pragma once

#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "planner/ranking.h"
#include "planner/search_bounds.h"

namespace tessera::planner {

struct Family {
  FamilyChoice choice;
  size_t mesh = 0;
  int64_t order = 0;  // place of its first layout in the space
  int64_t num_layouts = 0;
  double bound_s = 0;
};

// What became of every layout.
class SearchCounts {
 public:
  int64_t num_priced = 0;
  int64_t num_pruned = 0;

  void Reject(const spec::Violation& violation, int64_t num_layouts);
  SearchResult TakeResult();

 private:
  std::map<std::string, Rejection> rejections_;
};

// Best first. A layout is a candidate three times, each time with a tighter bound: when its family
// is opened, by its partition; then by its closed-form price; then it is priced exactly.
class FamilySearch {
 public:
  FamilySearch(const Request& request, cost_model::JobCosts& costs, Ranking& ranking,
               SearchCounts& counts)
      : request_(request), costs_(costs), ranking_(ranking), counts_(counts) {}

  // Makes every layout of a family a candidate. Keeps the references.
  void Open(const spec::ParallelSpec& mesh, const Family& family);

  // What no candidate can be faster than; infinite without candidates.
  double NextBound() const;
  // Takes the most promising candidate one step further, at last into the ranking. REQUIRES: there
  // is one.
  void Advance();

  // PartitionsOf, worked out once.
  const std::vector<std::vector<int>>& Partitions(int num_virtual_stages);

  // Counts the candidates left. Of the layouts that lack memory, the exact price of the one that
  // lacks least tells how much.
  void CountTheRest();

 private:
  static constexpr int kNotPriced = -1;
  struct Candidate {
    double bound_s = 0;
    int64_t order = 0;  // the same for partitions of one layout
    const spec::ParallelSpec* mesh = nullptr;
    const Family* family = nullptr;
    Finish finish;
    int partition = 0;
    int priced = kNotPriced;  // index into priced_
  };
  struct IsWorse {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.bound_s != b.bound_s ? a.bound_s > b.bound_s : a.order > b.order;
    }
  };

  // Whether no partition of the family can be run with the end of the step that `layout` has, or
  // fit: then they are counted.
  bool IsOut(const Family& family, spec::ParallelSpec layout, int64_t num_layouts);
  std::vector<double> PartitionBounds(const Family& family, spec::ParallelSpec layout);
  void PriceFast(Candidate candidate);
  void PriceAndRank(const Candidate& candidate);
  // Recomputes the fewest layers that may fit. False where that is none or all of them.
  bool SetFewestRecomputed(spec::ParallelSpec& layout);
  void ReduceByStage(spec::ParallelSpec& layout);
  bool MayFit(const spec::ParallelSpec& layout);
  // Counts the layout; no value where it does not fit.
  std::optional<RankedLayout> PriceExactly(spec::ParallelSpec layout, bool recomputes_some);
  void RejectForMemory(const spec::ParallelSpec& layout, double needed_bytes,
                       int64_t num_layouts = 1);
  double AvailableBytes() const {
    return static_cast<double>(request_.job.cluster.device.memory_bytes);
  }

  const Request& request_;
  cost_model::JobCosts& costs_;
  Ranking& ranking_;
  SearchCounts& counts_;
  std::priority_queue<Candidate, std::vector<Candidate>, IsWorse> candidates_;
  std::vector<spec::ParallelSpec> priced_;
  std::map<int64_t, double> best_s_;  // exact, by order
  std::map<int, std::vector<std::vector<int>>> partitions_;
  std::map<std::pair<int, int>, StageForms> fewest_;  // by pipeline stages and chunks
  std::optional<spec::ParallelSpec> nearest_;
  double nearest_needed_bytes_ = 0;
  int64_t num_without_memory_ = 0;
};

}  // namespace tessera::planner
