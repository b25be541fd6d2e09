// The part of a search within one family: layouts that differ in how a step ends, in the layers of
// their stages, and, where only some layers are recomputed, in which.
#pragma once

#include <map>
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

class FamilySearch {
 public:
  FamilySearch(const Request& request, cost_model::JobCosts& costs, Ranking& ranking,
               SearchCounts& counts)
      : request_(request), costs_(costs), ranking_(ranking), counts_(counts) {}

  // Prices the layouts of a family as far as they may change the ranking, and adds those that do.
  void Evaluate(const spec::ParallelSpec& mesh, const Family& family);

  // PartitionsOf, worked out once.
  const std::vector<std::vector<int>>& Partitions(int num_virtual_stages);

  // Of the layouts that lack memory, the one that lacks least: its exact price tells how much.
  void PriceNearest();

 private:
  struct Candidate {
    spec::ParallelSpec layout;
    double step_time_s = 0;
  };

  void EvaluateFinish(const Family& family, const spec::ParallelSpec& layout, int64_t order);
  // The layout's fast price, unless it breaks a rule or surely lacks memory: then it is counted.
  void AddCandidate(const Family& family, const spec::ParallelSpec& layout);
  // Recomputes the fewest layers that may fit. False where that is none or all of them.
  bool SetFewestRecomputed(spec::ParallelSpec& layout);
  void ReduceByStage(spec::ParallelSpec& layout);
  bool MayFit(const spec::ParallelSpec& layout);
  void PriceBest(int64_t order);
  // Counts the layout; no value where it does not fit.
  std::optional<RankedLayout> PriceExactly(spec::ParallelSpec layout);
  void RejectForMemory(const spec::ParallelSpec& layout, double needed_bytes);
  double AvailableBytes() const {
    return static_cast<double>(request_.job.cluster.device.memory_bytes);
  }

  const Request& request_;
  cost_model::JobCosts& costs_;
  Ranking& ranking_;
  SearchCounts& counts_;
  std::vector<Candidate> candidates_;  // of the finish at hand
  bool recomputes_some_ = false;
  std::map<int, std::vector<std::vector<int>>> partitions_;
  std::optional<spec::ParallelSpec> nearest_;
  double nearest_needed_bytes_ = 0;
  int64_t num_without_memory_ = 0;
};

}  // namespace tessera::planner
