// Memory that the engine takes for the length of an operation or of a pass, to the byte; on top of
// parameters, optimizer state and what forward passes keep.
#pragma once

#include <cstdint>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/op_list.h"

namespace tessera::spec {

// What a step adds up on the device, in double: losses, squares of gradients.
inline constexpr int64_t kStepSumsBytes = 16;

// Scratch memory of a GPU's backend, for matrix products (32 MiB is what PyTorch gives cuBLAS from
// Hopper on), sums and attention (of a sequence of 8192 with heads of 128, cuDNN's backward pass
// needs 32.1 MiB for each key/value head).
inline constexpr int64_t kGpuWorkspaceBytes = int64_t{64} << 20;

// The backend's scratch memory on a rank: kGpuWorkspaceBytes on a device of its own, none where
// ranks share the cores of a machine.
int64_t BackendWorkspaceBytes(const ClusterSpec& cluster);

// The most that comes and goes within the passes of a virtual stage, by what the stage has.
struct PassWorkspace {
  int64_t layer_bytes = 0;
  int64_t embedding_bytes = 0;
  int64_t head_bytes = 0;
  int64_t transfer_bytes = 0;  // of an activation between stages, where HoldsTransferInBackward

  int64_t Most(bool has_layers, bool has_embedding, bool has_head) const;
  int64_t Most(const VirtualStage& stage) const {
    return Most(stage.num_layers > 0, stage.has_embedding, stage.has_head);
  }
};

// With T tokens, L of them held here under sequence parallelism (G = T h gathered then, else 0),
// widths h hidden, f MLP, w its first product's, q of queries, keys and values, o of the
// attention's output: of a layer, whose backward pass needs most, the gradient that arrives, L h,
// and beside it the largest of
//   G + T f (3 T f with a gate)   gradients within the MLP
//   T w + T h (+ L h)             partial sums of its input's gradient (and their scattering)
//   G + T o                       gradient of the attention's output
//   T (o + q)                     of queries, keys and values
//   T q + T h (+ L h)
// Of the embedding and of the head partial sums T h (+ L h), or the gradient with its gathered
// form; of the head also four fp32 values a token for the loss.
PassWorkspace PassWorkspaceOf(const ModelSpec& model, const TrainingSpec& training,
                              const LocalShape& shape);

// Whether a pipeline stage holds an activation that it received ahead of its turn while a backward
// pass runs. Interleaved stages receive ahead; with a single round of micro-batches only those of
// the second half, but for the last, still do so once their backward passes have begun.
bool HoldsTransferInBackward(const ParallelSpec& parallel, int64_t num_microbatches, int stage);

}  // namespace tessera::spec
