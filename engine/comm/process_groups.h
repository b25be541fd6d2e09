// The process groups of one rank, along every axis of the mesh.
#pragma once

#include <memory>

#include "cost_model/base/op.h"
#include "cost_model/spec/parallel_spec.h"
#include "cost_model/spec/rank_layout.h"
#include "engine/comm/communicator.h"

namespace tessera::engine {

// Communicators are never null: an axis of size one has a group of one rank.
struct ProcessGroups {
  // Collective over `world`, which must outlive the groups and have WorldSize(parallel) ranks
  // (throws base::ConfigError if not). Every rank splits in the same order.
  // `num_key_value_heads` of the model tells which tensor ranks share key and value heads.
  ProcessGroups(Communicator& world_comm, const spec::ParallelSpec& parallel,
                int num_key_value_heads);

  // Tells `observer`, null for none, of every operation of every group, the world's included;
  // records carry static_cast<int>(spec::Axis).
  void set_observer(base::OpObserver* observer);

  Communicator& world;
  spec::RankLayout layout;
  spec::RankCoord coord;  // of this rank
  std::unique_ptr<Communicator> tensor;
  std::unique_ptr<Communicator> context;
  std::unique_ptr<Communicator> pipeline;
  std::unique_ptr<Communicator> gradient;       // data and context: holders of the same parameters
  std::unique_ptr<Communicator> model;          // tensor and pipeline: one replica of the model
  std::unique_ptr<Communicator> embedding;      // first and last stage of one pipeline
  std::unique_ptr<Communicator> kv_replica;     // holders of the same key and value heads
  std::unique_ptr<Communicator> expert;         // holders of different experts
  std::unique_ptr<Communicator> expert_tensor;  // sharers of the same experts' matrices
  std::unique_ptr<Communicator> expert_data;    // holders of the same parts of the same experts
  // Where ZeRO shards among fewer ranks than hold the same parameters, else null: those ranks, and
  // those that keep the same shard.
  std::unique_ptr<Communicator> shard;
  std::unique_ptr<Communicator> shard_replica;
  std::unique_ptr<Communicator> expert_shard;
  std::unique_ptr<Communicator> expert_shard_replica;
};

}  // namespace tessera::engine
