// How far the machine may differ from its description before another layout is the better choice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search.h"

namespace tessera::planner {

// One number of the cluster, scaled one way until the choice is no longer the best of the layouts
// that came closest to it.
struct Sensitivity {
  std::string quantity;  // "bandwidth between nodes"
  std::string unit;      // "B/s", "s", "FLOP/s", "B"
  double value = 0;      // as the cluster has it
  bool falls = true;     // scaled down, or up
  // Where another layout takes over; absent: nowhere up to kWidestFactor times less or more.
  std::optional<double> threshold;
  std::optional<spec::ParallelSpec> successor;  // the best beyond it; absent: none fits
};
inline constexpr double kWidestFactor = 32;

// Of bandwidths and latency of the links that the job uses, the peak and the memory of a device.
// By bisection, to 1 %, with the closed-form price. REQUIRES: the search found a row.
std::vector<Sensitivity> FindSensitivities(const Request& request, const SearchResult& search);

// "The choice stays best until the bandwidth between nodes falls below 12.5 GB/s (0.25 x), then tp
// 8, ...": one sentence for each that has a threshold, one for all that have none.
std::vector<std::string> SensitivityTexts(const std::vector<Sensitivity>& sensitivities);

}  // namespace tessera::planner
