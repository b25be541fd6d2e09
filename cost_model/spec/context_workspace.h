// Memory that attention proper takes for the length of a pass, alone or spread over
// context-parallel ranks. Internal to PassWorkspaceOf.
#pragma once

#include <cstdint>

#include "cost_model/spec/op_list.h"

namespace tessera::spec {

// The most at once. Forward from the product that gives q, k and v on; backward with the gradient
// of the output, up to that of q, k and v.
struct CoreWorkspace {
  int64_t forward_bytes = 0;
  int64_t recomputed_bytes = 0;  // forward again, with the gradient of the output
  int64_t backward_bytes = 0;
};

// With T tokens here on each of n ranks, elements of e bytes, widths q of queries, o of the output,
// c of keys and values together, w = q + c, a heads and G of gathered inputs (workspace.h):
//   alone        forward 0, backward e T (o + w)
//   ring         forward 2 blocks of keys and values; 4 bytes each for sums of the output and its
//                statistics: T (2 e c + 4 o + 4 a)
//                backward 2 blocks, sums of dq, 3 blocks of sums:  T (e o + 2 e c + 4 q + 12 c),
//                or with what it all becomes  T (4 q + 4 c + e w)
//   all-gather   forward keys and values as they come and in order: 2 n e T c
//                backward the same with e T o, or in order with dq and sums:
//                e T (o + w) + n T (e + 4) c
//   all-to-all   a copy to send and one received: 2 e T w; forward e (G + T w) before
CoreWorkspace CoreWorkspaceOf(const ParallelSpec& parallel, const LocalShape& shape);

}  // namespace tessera::spec
