// Why the first layout is first, in plain sentences.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/best_practice.h"
#include "planner/search.h"

namespace tessera::planner {

// Rows after the first that are within the error band of it: the model does not know better.
size_t NumTies(const Request& request, const SearchResult& search);

// Where `chosen` gains and loses against `other`, the largest parts first: "0.42 s less
// tensor-parallel communication, 0.10 s more pipeline bubble".
std::string DifferenceText(const spec::TimeBreakdown& chosen, const spec::TimeBreakdown& other);

// How full the fullest stage is, and what is left. REQUIRES: the layout fits.
std::string MemoryText(const Request& request, const RankedLayout& layout);

// The choice, its lead over the best other mesh, what limits it, its memory, the best-practice
// table, ties. REQUIRES: the search found a row.
std::vector<std::string> Explain(const Request& request, const SearchResult& search,
                                 const std::optional<BestPractice>& best_practice);

// Why nothing of the space can be recommended, in one sentence. REQUIRES: the search found no row.
std::string WhyNothingFits(const SearchResult& search);

}  // namespace tessera::planner
