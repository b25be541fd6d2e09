// The parts of an answer beside the priced layouts, as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/best_practice.h"
#include "planner/layout_text.h"
#include "planner/repairs.h"

namespace tessera::planner {

// "1,024 layouts: 100 priced, 900 pruned by bounds, 24 ruled out".
std::string CountsText(const SearchResult& search);

// How many layouts each constraint ruled out, with one example.
std::string RejectionsText(const SearchResult& search);

// What the best-practice table says, and what rules it out where nothing of its kind is feasible.
std::string BestPracticeText(const BestPractice& practice);

// The first `num_rows` of the ranking: layout, step time, tokens/s, MFU, peak memory; below them,
// marked "bp", what the best-practice table would pick.
std::string RankingText(const std::vector<RankedLayout>& rows, int num_rows,
                        const std::optional<BestPractice>& best_practice);

// What to change, and what it would bring; beside the step time of the layout given, where it has a
// price (0: it has none).
std::string RepairsText(const std::vector<Repair>& repairs, double given_step_time_s = 0);

}  // namespace tessera::planner
