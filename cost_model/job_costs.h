// What is priced, and the parts of the price that many layouts share.
#pragma once

#include <unordered_map>

#include "cost_model/block_cost.h"
#include "cost_model/spec/plan.h"
#include "cost_model/spec/runtime_spec.h"

namespace tessera::cost_model {

struct Job {
  spec::ModelSpec model;
  spec::ClusterSpec cluster;
  spec::TrainingSpec training;
  int num_devices = 1;
  spec::FlopsConvention convention = spec::FlopsConvention::kFull;
  spec::RuntimeSpec runtime;
};

// One micro-batch on one rank.
struct MicrobatchCost {
  spec::LocalShape shape;
  BlockCosts blocks;
  int64_t layer_saved_bytes = 0;
  int64_t layer_recomputed_bytes = 0;
  int64_t embedding_saved_bytes = 0;
  int64_t head_saved_bytes = 0;
  int64_t workspace_bytes = 0;
  double transfer_bytes = 0;  // of one pipeline transfer
};

// Elements of one rank's parameters, alignment included.
struct ParameterCounts {
  int64_t layer = 0;
  int64_t embedding = 0;
  int64_t head = 0;
  int64_t tied_embedding = 0;  // held by the first and by the last stage
  // Those whose gradients are summed over the tensor-parallel ranks under sequence parallelism.
  int64_t layer_tokenwise = 0;
  int64_t embedding_tokenwise = 0;
  int64_t head_tokenwise = 0;
  // Key and value weights of a layer that several tensor-parallel ranks hold.
  int64_t layer_kv_replicated = 0;
};

// Works each part out once. Layouts priced by one object share rank_order, context-parallel size,
// vocab_size_multiple and bucket_elements.
class JobCosts {
 public:
  // Throws base::ConfigError when the cluster has no peak for the job's precision.
  explicit JobCosts(Job job);

  const Job& job() const { return job_; }
  const RankDevice& device() const { return device_; }
  const Network& network() const { return network_; }

  // The references stay valid as long as this object.
  const MicrobatchCost& MicrobatchOf(const spec::ParallelSpec& parallel);
  const ParameterCounts& ParametersOf(const spec::ParallelSpec& parallel);

 private:
  Job job_;
  RankDevice device_;
  Network network_;
  std::unordered_map<uint64_t, MicrobatchCost> microbatches_;
  std::unordered_map<uint64_t, ParameterCounts> parameters_;
};

}  // namespace tessera::cost_model
