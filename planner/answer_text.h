// The parts of an answer beside the priced layouts, as text.
#pragma once

#include <string>
#include <vector>

#include "planner/best_practice.h"
#include "planner/layout_text.h"
#include "planner/repairs.h"

namespace tessera::planner {

// How many layouts each constraint ruled out, with one example.
std::string RejectionsText(const SearchResult& search);

// The table's layout beside the choice, both priced.
std::string BestPracticeText(const BestPractice& practice, const RankedLayout& chosen);

// What to change, and what it would bring.
std::string RepairsText(const std::vector<Repair>& repairs);

}  // namespace tessera::planner
