// What a collective over shared memory has to do, cut into fragments that any thread may run, in
// any order: no two fragments of one collective touch the same output, and a fragment reads its
// part of every input before it writes that part of an output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/base/dtype.h"
#include "cost_model/base/op.h"

namespace tessera::engine {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kBarrier,
  kSplit,
};
std::string_view ToString(CollectiveKind kind);

// What all ranks of a group must agree on.
struct CollectiveHeader {
  CollectiveKind kind = CollectiveKind::kBarrier;
  base::DType dtype = base::DType::kUInt8;
  base::ReduceOp op = base::ReduceOp::kSum;
  int root = 0;
  int64_t count = 0;  // elements, as the Communicator's method of this name counts them
  bool operator==(const CollectiveHeader&) const = default;
};
// "all_reduce(1000 fp32, sum)": for messages.
std::string ToString(const CollectiveHeader& header);

struct Collective {
  CollectiveHeader header;
  std::vector<const void*> inputs;  // [number of ranks]
  std::vector<void*> outputs;       // [number of ranks]
};

// Bytes that pass through a thread: what all ranks' outputs are made of, each counted once.
int64_t WorkBytes(const CollectiveHeader& header, int num_ranks);

int64_t NumFragments(const CollectiveHeader& header, int num_ranks);

// REQUIRES: 0 <= index < NumFragments.
void RunFragment(const Collective& collective, int64_t index);

}  // namespace tessera::engine
