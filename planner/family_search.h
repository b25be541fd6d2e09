// The part of a search below its families: layouts that differ in how a step ends, in the layers of
// their stages, and, where only some layers are recomputed, in which.
#pragma once

#include <algorithm>
#include <bitset>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "cost_model/step_pricer.h"
#include "planner/ranking.h"
#include "planner/search_bounds.h"

namespace tessera::planner {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// A way in which a step may end, and its place among those of the mesh.
struct PlacedFinish {
  Finish finish;
  int place = 0;
};

// A mesh and the ends of a step that can be run on it; those of one ZeRO stage follow each other.
struct MeshSpace {
  spec::ParallelSpec layout;
  std::vector<PlacedFinish> finishes;
};

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
// is opened, by its partition, whatever the end of the step; then, unless it lacks memory, by its
// closed-form price; then its time is that of the full price.
class FamilySearch {
 public:
  FamilySearch(const Request& request, cost_model::JobCosts& costs, Ranking& ranking,
               SearchCounts& counts)
      : request_(request), costs_(costs), ranking_(ranking), counts_(counts), pricer_(costs) {}

  // Makes every layout of a family a candidate. Keeps the references.
  void Open(const MeshSpace& mesh, const Family& family);

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
  using ZeroStages = std::bitset<4>;
  struct Candidate {
    double bound_s = 0;
    int64_t order = 0;  // the same for partitions of one layout
    const MeshSpace* mesh = nullptr;
    const Family* family = nullptr;
    ZeroStages zero_stages;  // that may fit
    int partition = 0;
    int priced = kNotPriced;  // index into priced_
  };
  struct IsWorse {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.bound_s != b.bound_s ? a.bound_s > b.bound_s : a.order > b.order;
    }
  };
  struct Priced {
    spec::ParallelSpec layout;
    double needed_bytes = 0;
  };

  // The ZeRO stages with which any partition of the family may fit; layouts of others are counted.
  ZeroStages FindZeroStages(const MeshSpace& mesh, const Family& family, spec::ParallelSpec layout);
  std::vector<double> PartitionBounds(const MeshSpace& mesh, const Family& family,
                                      ZeroStages zero_stages, spec::ParallelSpec layout);
  // The least EndTimeBound of the ends of a step with these ZeRO stages. REQUIRES: fewest_ of the
  // layout's stages are known.
  double EndBound(const MeshSpace& mesh, ZeroStages zero_stages, spec::ParallelSpec layout,
                  double window_s);
  static int64_t NumFinishes(const MeshSpace& mesh, ZeroStages zero_stages);

  // All ends of the step of a partition.
  void PricePartition(const Candidate& candidate);
  // Those of one ZeRO stage, which `layout` has.
  void PriceFinishes(const Candidate& candidate, spec::ParallelSpec layout);
  // Recomputes the fewest layers that fit. False where that is none or all of them: then the
  // layouts are counted.
  bool SetFewestRecomputed(spec::ParallelSpec& layout, int64_t num_layouts);
  void Rank(const Candidate& candidate);
  void RejectForMemory(const spec::ParallelSpec& layout, double needed_bytes, int64_t num_layouts);
  double AvailableBytes() const {
    return static_cast<double>(request_.job.cluster.device.memory_bytes);
  }
  // A layout that needs more is neither feasible nor the nearest to be.
  double EnoughBytes() const {
    return nearest_ ? std::max(AvailableBytes(), nearest_needed_bytes_)
                    : std::numeric_limits<double>::infinity();
  }

  const Request& request_;
  cost_model::JobCosts& costs_;
  Ranking& ranking_;
  SearchCounts& counts_;
  cost_model::StepPricer pricer_;
  std::priority_queue<Candidate, std::vector<Candidate>, IsWorse> candidates_;
  std::vector<Priced> priced_;
  std::unordered_map<int64_t, double> best_s_;  // by order
  std::map<int, std::vector<std::vector<int>>> partitions_;
  std::map<std::pair<int, int>, StageForms> fewest_;  // by pipeline stages and chunks
  std::optional<spec::ParallelSpec> nearest_;
  double nearest_needed_bytes_ = 0;
  int64_t num_without_memory_ = 0;
};

}  // namespace tessera::planner
