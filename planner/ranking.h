// The best layouts found so far, and how good a layout must be to change them.
#pragma once

#include <array>
#include <vector>

#include "planner/search.h"

namespace tessera::planner {

class Ranking {
 public:
  Ranking(const Request& request, int num_rows, int num_meshes)
      : request_(request), num_rows_(num_rows), num_meshes_(num_meshes) {}

  // A layout that takes longer changes nothing.
  double LongestStep() const;

  // What a layout is ranked by. `order` is its place in the space: of equals, the earlier is the
  // better.
  struct Entry {
    spec::ParallelSpec parallel;
    double step_time_s = 0;
    double needed_bytes = 0;  // what the memory limit holds against a device
    int64_t order = 0;
  };
  // Takes the place of a row of the same order.
  void Add(const Entry& entry);

  std::vector<spec::ParallelSpec> TakeRows();
  std::vector<spec::ParallelSpec> TakeMeshes();

 private:
  static bool IsFaster(const Entry& a, const Entry& b);
  void AddToMeshes(const Entry& entry);

  const Request& request_;
  const int num_rows_;
  const int num_meshes_;
  std::vector<Entry> rows_;    // fastest first
  std::vector<Entry> meshes_;  // the fastest of each mesh, fastest first
};

}  // namespace tessera::planner
