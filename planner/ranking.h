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

  // `order` is the place of the layout in the space: of equals, the earlier is the better. Takes
  // the place of a row of the same order.
  void Add(RankedLayout layout, int64_t order);

  std::vector<RankedLayout> TakeRows();
  std::vector<RankedLayout> TakeMeshes();

 private:
  struct Entry {
    RankedLayout layout;
    int64_t order = 0;
    double step_time_s() const { return layout.report.step_time_s; }
  };
  static bool IsFaster(const Entry& a, const Entry& b);
  void AddToMeshes(const Entry& entry);

  const Request& request_;
  const int num_rows_;
  const int num_meshes_;
  std::vector<Entry> rows_;    // fastest first
  std::vector<Entry> meshes_;  // the fastest of each mesh, fastest first
};

}  // namespace tessera::planner
