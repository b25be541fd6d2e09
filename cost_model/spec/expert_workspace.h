// Memory that comes and goes within the passes of a mixture of experts. Internal to workspace.h.
#pragma once

#include <cstdint>

#include "cost_model/spec/op_list.h"

namespace tessera::spec {

struct ExpertWorkspace {
  int64_t forward_bytes = 0;
  int64_t backward_bytes = 0;
  int64_t left_bytes = 0;  // what stays while the layer's attention runs backward
};

// Beside the gradient (or the output) of the layer, routing balanced or every expert filled up.
// With L tokens here, R rows that they send, X rows that experts here take, of widths h hidden, f
// an expert's and w its first product's, in elements, and k choices of a token in fp32, a dispatch
// holds two neighbours at a time of
//   R h   rows in the order of the experts
//   R h   exchanged over ep
//   X h   gathered over etp
//   X h   sorted by expert
// each where it takes place, the last one kept in the forward pass; a combination the same way
// back. Each is ordered by int32 indices. The backward pass holds L k, L h and the largest of
//   the dispatch of gradients
//   X h + X f, then X f + X w, then X w + X h, each with X values of rows
//   the combination of gradients, with X values of rows
//   L h + L E   the router's, of E experts.
// With a shared expert, f wide, and T tokens: L h more, before them G + T f (3 T f with SwiGLU),
// then its first product's T w + L h + G, with G = T h where tokens are gathered; with a gate also
// values of tokens. Where weight passes are put off, X h of the first two, X w and L E stay until
// the layer is done.
ExpertWorkspace ExpertWorkspaceOf(const ModelSpec& model, const TrainingSpec& training,
                                  const ParallelSpec& parallel, const LocalShape& shape);

}  // namespace tessera::spec
