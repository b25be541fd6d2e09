// What is priced, and the parts of the price that many layouts share.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "cost_model/block_cost.h"
#include "cost_model/spec/layer_runs.h"
#include "cost_model/spec/plan.h"
#include "cost_model/spec/runtime_spec.h"
#include "cost_model/spec/workspace.h"
#include "cost_model/stage_parameters.h"

namespace tessera::cost_model {

struct Job {
  spec::ModelSpec model;
  spec::ClusterSpec cluster;
  spec::TrainingSpec training;
  int num_devices = 1;
  spec::FlopsConvention convention = spec::FlopsConvention::kFull;
  spec::RuntimeSpec runtime;
};

// One micro-batch on one rank: what it holds and sends.
struct MicrobatchCost {
  spec::LocalShape shape;
  spec::PerForm<spec::LayerBytes> layers = {};
  int64_t stage_output_bytes = 0;  // kept by a stage that sends its output
  int64_t embedding_saved_bytes = 0;
  int64_t head_saved_bytes = 0;
  int64_t head_peak_bytes = 0;
  spec::PassWorkspace workspace;
  double transfer_bytes = 0;  // of one pipeline transfer
};

// The choices of a layout that a part of its price depends on, packed: up to six sizes below 2^32
// and sixteen choices among at most sixteen.
struct LayoutKey {
  std::array<uint64_t, 4> words = {};
  int num_sizes = 0;

  void AddSize(int64_t size) {
    uint64_t& word = words[num_sizes++ / 2];
    word = word << 32 | static_cast<uint64_t>(size);
  }
  void AddChoice(uint64_t choice) { words[3] = words[3] << 4 | choice; }
  bool operator==(const LayoutKey&) const = default;
};
struct LayoutKeyHash {
  size_t operator()(const LayoutKey& key) const {
    uint64_t hash = 0;
    // Multiplicative hashing; the constant is 2^64 over the golden ratio (Knuth, volume 3, 6.4).
    for (const uint64_t word : key.words) hash = (hash ^ word ^ hash >> 29) * 0x9E3779B97F4A7C15;
    return hash ^ hash >> 32;
  }
};

// Works each part out once. Layouts priced by one object share rank_order, vocab_size_multiple and
// bucket_elements.
class JobCosts {
 public:
  // Throws base::ConfigError when the cluster has no peak for the job's precision.
  explicit JobCosts(Job job);

  const Job& job() const { return job_; }
  const RankDevice& device() const { return device_; }
  const Network& network() const { return network_; }

  // The references stay valid as long as this object.
  const BlockCosts& BlocksOf(const spec::ParallelSpec& parallel) {
    return BlocksOf(parallel, parallel.recompute);
  }
  // As if every layer were recomputed like that.
  const BlockCosts& BlocksOf(const spec::ParallelSpec& parallel, spec::Recompute recompute);
  const MicrobatchCost& MicrobatchOf(const spec::ParallelSpec& parallel) {
    return MicrobatchOf(parallel, parallel.recompute);
  }
  const MicrobatchCost& MicrobatchOf(const spec::ParallelSpec& parallel, spec::Recompute recompute);
  // By pipeline stage.
  const std::vector<spec::TransferBuffers>& TransfersOf(const spec::ParallelSpec& parallel,
                                                        int64_t num_microbatches);
  const ParameterCounts& ParametersOf(const spec::ParallelSpec& parallel);
  const ParameterItems& ItemsOf(const spec::ParallelSpec& parallel);
  const spec::StateElements& StateOf(const spec::ParallelSpec& parallel, const RankLayers& layers,
                                     Padding padding);

 private:
  Job job_;
  RankDevice device_;
  Network network_;
  std::unordered_map<LayoutKey, BlockCosts, LayoutKeyHash> blocks_;
  std::unordered_map<LayoutKey, MicrobatchCost, LayoutKeyHash> microbatches_;
  std::unordered_map<LayoutKey, std::vector<spec::TransferBuffers>, LayoutKeyHash> transfers_;
  std::unordered_map<LayoutKey, ParameterCounts, LayoutKeyHash> parameters_;
  std::unordered_map<LayoutKey, ParameterItems, LayoutKeyHash> items_;
  std::unordered_map<LayoutKey, spec::StateElements, LayoutKeyHash> states_;
};

}  // namespace tessera::cost_model
