// What every layer of a rank works with. One per rank; layers hold a reference.
#pragma once

#include "cost_model/spec/op_list.h"
#include "engine/comm/process_groups.h"
#include "engine/tensor/memory_pool.h"
#include "kernels/backend.h"

namespace tessera::engine {

struct LayerContext {
  kernels::Backend& backend;
  MemoryPool& pool;
  ProcessGroups& groups;
  const spec::ModelSpec& model;
  const spec::ParallelSpec& parallel;
  spec::LocalShape shape;

  Buffer Activation(int64_t elements) const {
    return pool.AllocateF32(MemoryKind::kActivations, elements);
  }
  Buffer Workspace(int64_t elements) const {
    return pool.AllocateF32(MemoryKind::kWorkspace, elements);
  }
};

}  // namespace tessera::engine
