// Lists of different lengths from every rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "engine/comm/communicator.h"

namespace tessera::engine {

// Every rank's items, by rank. Collective over `world`, which carries host memory.
template <typename T>
std::vector<std::vector<T>> GatherLists(const std::vector<T>& mine, Communicator& world) {
  static_assert(std::is_trivially_copyable_v<T>, "items travel as their bytes");
  const auto num_ranks = static_cast<size_t>(world.size());
  const auto num_mine = static_cast<int64_t>(mine.size());
  std::vector<int64_t> counts(num_ranks);
  world.AllGather(&num_mine, counts.data(), 1, base::DType::kInt64);
  // An all-gather takes the same from every rank.
  const auto most = static_cast<size_t>(*std::max_element(counts.begin(), counts.end()));
  std::vector<T> padded = mine;
  padded.resize(most);
  std::vector<T> gathered(num_ranks * most);
  world.AllGather(padded.data(), gathered.data(), static_cast<int64_t>(most * sizeof(T)),
                  base::DType::kUInt8);
  std::vector<std::vector<T>> all(num_ranks);
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const auto first = gathered.begin() + static_cast<int64_t>(rank * most);
    all[rank].assign(first, first + counts[rank]);
  }
  return all;
}

}  // namespace tessera::engine
