// The ways to share a model's layers out over pipeline stages that a search tries.
#pragma once

#include <vector>

namespace tessera::planner {

// Layers of each virtual stage. The first entry is empty: as even as can be. The others give the
// first stage up to two and the last, which carries the head, up to three layers less than the even
// share, and spread the rest evenly between them, what remains going to the middle. Each is
// different from the even one; only that one for a single stage.
std::vector<std::vector<int>> StagePartitions(int num_layers, int num_virtual_stages);

}  // namespace tessera::planner
