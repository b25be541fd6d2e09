// Collectives of a group of processes. Every rank talks to every other directly: the same bytes
// as round a ring, and each element is summed once, by one rank, in ascending rank order, from the
// inputs themselves; so results are those of the `thread` backend to the bit.
#pragma once

#include "engine/comm/gloo_group.h"

namespace tessera::engine {

// The collective `op` of one rank. `input` and `output` as Communicator's method of its kind takes
// them. Throws base::CommError.
void RunGlooCollective(GlooGroup& group, GlooWorld::Wait& wait, const CommOp& op, const void* input,
                       void* output);

// Throws base::CommError naming what two ranks called where they differ.
void CheckGlooHeaders(GlooGroup& group, GlooWorld::Wait& wait, const CommOp& op);

}  // namespace tessera::engine
