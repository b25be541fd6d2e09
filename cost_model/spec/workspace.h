// Memory that the engine takes for the length of an operation or of a pass, to the byte; on top of
// parameters, optimizer state and what forward passes keep.
#pragma once

#include <cstdint>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/op_list.h"
#include "cost_model/spec/transfer_buffers.h"

namespace tessera::spec {

// What a step adds up on the device, in double: losses, squares of gradients.
inline constexpr int64_t kStepSumsBytes = 32;

// Scratch memory of a GPU's backend, for matrix products (32 MiB is what PyTorch gives cuBLAS from
// Hopper on), sums and attention (of a sequence of 8192 with heads of 128, cuDNN's backward pass
// needs 32.1 MiB for each key/value head).
inline constexpr int64_t kGpuWorkspaceBytes = int64_t{64} << 20;

// The backend's scratch memory on a rank: kGpuWorkspaceBytes on a device of its own, none where
// ranks share the cores of a machine.
int64_t BackendWorkspaceBytes(const ClusterSpec& cluster);

// The most that comes and goes within a forward or a backward pass of a virtual stage.
struct PassWorkspace {
  struct Bytes {
    int64_t forward = 0;
    int64_t backward = 0;
  };
  // By what the stage has.
  Bytes layer;         // a dense one
  Bytes expert_layer;  // see expert_workspace.h
  Bytes embedding;
  Bytes head;
  int64_t message_bytes = 0;  // of a pipeline transfer, as it is sent

  Bytes Most(const ModelSpec& model, const VirtualStage& stage) const;
};

// Passes of a chunk of a pipeline stage and the transfers beside them.
int64_t ChunkWorkspaceBytes(const ModelSpec& model, const PassWorkspace& workspace,
                            const TransferBuffers& transfers, const VirtualStage& chunk);

// With T tokens, L of them held here under sequence parallelism (G = T h gathered then, else 0),
// widths h hidden, f MLP, w its first product's, q of queries, keys and values, o of the
// attention's output: of a layer's forward pass its output, L h, and partial sums T h (+ L h) of
// what comes before; of its backward pass the gradient that arrives, L h, and beside it the largest
// of
//   G + T f (3 T f with a gate)   gradients within the MLP
//   T w + T h (+ L h)             partial sums of its input's gradient (and their scattering)
//   G + T o                       gradient of the attention's output
//   attention proper              context_workspace.h; on one rank T (o + q)
//   T q + T h (+ L h)             of queries, keys and values, and of their input
// Where weight passes are put off, what their products read stays until the layer's backward pass
// ends: G more with each of the MLP's lines, and beside the attention's G more and what the MLP
// leaves, T w + 2 G or T w + L h.
// With hidden dropout the gradient that enters a branch is a tensor of its own: L h more with the
// gradients within the MLP and with that of the attention's output, and with all other lines where
// a product that is put off reads it as it is.
// With overlap_tp_comm the input is gathered beside partial sums of its gradient: G more there, of
// the head too.
// Of the embedding and of the head partial sums T h (+ L h), or the gradient with its gathered
// form; of the head's forward pass gathered tokens or four fp32 values a token for the loss.
PassWorkspace PassWorkspaceOf(const ModelSpec& model, const TrainingSpec& training,
                              const ParallelSpec& parallel, const LocalShape& shape);

}  // namespace tessera::spec
