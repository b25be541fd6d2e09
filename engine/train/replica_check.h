// Whether what several ranks hold copies of is the same on all of them, to the bit. Replicas stay
// equal because every rank applies the same update to them; nothing puts them right once one
// differs, and the loss may go down for a long while.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "engine/comm/communicator.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

// Replicas differ: names the parameter, the ranks that hold other bits than most, the step, and the
// first element that differs.
class ReplicaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class ReplicaKind : uint8_t { kWeights, kGradients };

struct ReplicaCheck {
  int64_t num_replicated = 0;  // parts of parameters that more than one rank holds, over all ranks
  int64_t num_bytes = 0;       // that this rank read
};

// Compares checksums (CRC-32) of what each rank holds: of weights the replicas of data, context and
// tensor ranks, tied embeddings, and experts over the ranks that hold the same ones; of gradients,
// after a step, what ranks update alike (without sharding all of it; with ZeRO each rank its own
// shard, so that only replicas along other axes are left). Collective over `host_world`; all ranks
// throw the same ReplicaError.
//
// Cost: each rank reads its weights once, through the host, at the speed of the checksum (about 1.5
// GB/s a core), then 16 bytes a parameter are gathered from every rank.
ReplicaCheck CheckReplicas(const ParameterStore& store, kernels::Backend& backend,
                           Communicator& host_world, ReplicaKind kind, int64_t step);

}  // namespace tessera::engine
