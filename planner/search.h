// The search: the best layout of the space by the exact price, found without pricing all of them.
#pragma once

#include <string>
#include <vector>

#include "cost_model/step_cost.h"
#include "planner/request.h"

namespace tessera::planner {

struct RankedLayout {
  spec::ParallelSpec parallel;
  spec::StepReport report;
};

// Layouts that one constraint ruled out, counted by the first constraint that each breaks.
struct Rejection {
  std::string constraint;
  int64_t num_layouts = 0;
  spec::Violation example;
};

struct SearchResult {
  // The best, exactly priced, best first. Of layouts that differ only in the layers of their stages
  // the best one stands for all.
  std::vector<RankedLayout> rows;
  // The best layout of each of the fastest meshes (tp, pp, dp, cp, ep), fastest first, as far as
  // they are not much slower than the last row.
  std::vector<RankedLayout> meshes;
  // num_priced + num_pruned + those rejected.
  int64_t num_layouts = 0;
  int64_t num_priced = 0;  // and what they break is nothing
  int64_t num_pruned = 0;  // proven to be no better than the rows by a bound, or by another layout
  std::vector<Rejection> rejections;  // most frequent first, each with an example
};

// Rows that are kept at least, for the ranking and its ties; and meshes.
inline constexpr int kNumKeptRows = 50;
inline constexpr int kNumKeptMeshes = 3;

// Best first: families of layouts in the order of their bounds, until the bound of the next exceeds
// all that is kept. The rows are those of an exhaustive search; which of the others are priced,
// pruned or found to lack memory depends on that order.
SearchResult Search(const Request& request, cost_model::JobCosts& costs);
// The best layout alone, faster.
SearchResult SearchBest(const Request& request, cost_model::JobCosts& costs);

// The first rule, target's limit or missing price that stands against a layout, memory apart.
std::optional<spec::Violation> FindRuleViolation(const Request& request,
                                                 const spec::ParallelSpec& parallel);

// Prices one layout exactly, or says what it breaks; limits of the target aside.
cost_model::StepPrice PriceLayout(const Request& request, const spec::ParallelSpec& parallel,
                                  cost_model::JobCosts& costs);

// Bytes that the memory limit holds against a device (or a pool) that runs a priced layout.
double NeededBytesOf(const Request& request, const RankedLayout& layout);

}  // namespace tessera::planner
