// What every layer of a rank works with. One per rank; layers hold a reference.
#pragma once

#include "cost_model/spec/op_list.h"
#include "cost_model/spec/training_spec.h"
#include "engine/comm/process_groups.h"
#include "engine/layers/document_state.h"
#include "engine/layers/dropout_state.h"
#include "engine/layers/weight_products.h"
#include "engine/tensor/memory_pool.h"
#include "engine/tensor/span_log.h"
#include "kernels/backend.h"

namespace tessera::engine {

// Where the step's losses add up and what its gradients are of. Changes from step to step.
struct LossTarget {
  double* sum = nullptr;  // device memory: sum of token losses on this rank
  // The same of the losses of routers, times their coefficients.
  double* balance_sum = nullptr;
  double* router_z_sum = nullptr;
  // Gradients are of these times the sums: the one of the loss, whose mean may leave tokens out,
  // and that of the routers' losses, which are of all tokens.
  float grad_scale = 1;
  float router_grad_scale = 1;
};

struct LayerContext {
  kernels::Backend& backend;
  MemoryPool& pool;
  ProcessGroups& groups;
  const spec::ModelSpec& model;
  const spec::ParallelSpec& parallel;
  spec::PrecisionTypes types;
  spec::LocalShape shape;
  const LossTarget& loss;
  SpanLog& tensor_comm;   // exposed tensor-parallel communication
  SpanLog& context_comm;  // exposed context-parallel communication
  SpanLog& expert_comm;   // and that of experts
  BackwardPart& part;
  DropoutState& dropout;
  DocumentState& documents;

  // What positions count from; absent where they count through a sample.
  kernels::DocumentStarts PositionDocuments() const {
    return shape.resets_positions ? documents.running : kernels::DocumentStarts{};
  }
  // What attention keeps apart; absent where it sees whole samples.
  kernels::DocumentStarts AttentionDocuments() const {
    return shape.resets_attention ? documents.running : kernels::DocumentStarts{};
  }
  // Of this rank's tokens the first one's row among the micro-batch's.
  int64_t FirstRow() const {
    return shape.sequence_parallel ? groups.tensor->rank() * shape.local_tokens : 0;
  }
  // In the activations' type.
  Buffer Activation(int64_t elements) const {
    return pool.Allocate(MemoryKind::kActivations, types.activation, elements);
  }
  // kStep for what a layer gives to the next one, which keeps it.
  Buffer Workspace(int64_t elements, Lifetime lifetime = Lifetime::kPass) const {
    return pool.Allocate(MemoryKind::kWorkspace, types.activation, elements, lifetime);
  }
  // [local_tokens, hidden]
  Buffer LocalTokens(Lifetime lifetime = Lifetime::kPass) const {
    return Workspace(shape.local_tokens * shape.hidden, lifetime);
  }
  // Of gradients that products of weight gradients read: kept beyond the pass where the schedule
  // puts these products off.
  Lifetime OperandLifetime() const {
    return parallel.schedule == spec::ScheduleKind::kZeroBubbleH1 ? Lifetime::kStep
                                                                  : Lifetime::kPass;
  }
  // In fp32 whatever the precision: what norms and the softmax keep; values of rows.
  Buffer Statistics(int64_t elements) const {
    return pool.Allocate(MemoryKind::kActivations, base::DType::kFloat32, elements);
  }
  Buffer Fp32Workspace(int64_t elements) const {
    return pool.Allocate(MemoryKind::kWorkspace, base::DType::kFloat32, elements);
  }
};

}  // namespace tessera::engine
