#include "cost_model/step_memory.h"

#include <algorithm>
#include <numeric>

#include "cost_model/memory.h"
#include "cost_model/memory_terms.h"
#include "cost_model/spec/activation_peak.h"
#include "cost_model/stage_memory.h"

namespace tessera::cost_model {
namespace {

bool HoldAlike(const spec::StageActivationBytes& a, const spec::StageActivationBytes& b) {
  return a.saved_bytes == b.saved_bytes && a.working_bytes == b.working_bytes;
}

// The stages of a layout, one after the other.
class Stages {
 public:
  Stages(JobCosts& costs, const spec::ParallelSpec& parallel, const StepParts& parts,
         Padding padding)
      : costs_(costs),
        parallel_(parallel),
        parts_(parts),
        padding_(padding),
        microbatch_(costs.MicrobatchOf(parallel)),
        kept_(parts.recomputed.empty() ? microbatch_
                                       : costs.MicrobatchOf(parallel, spec::Recompute::kNone)),
        items_(costs.ItemsOf(parallel)),
        transfers_(costs.job().runtime.autograd
                       ? nullptr
                       : &costs.TransfersOf(parallel, parts.num_microbatches)) {
    by_chunk_.resize(parts.forms.size() / parallel.pipeline_parallel_size);
  }

  // Goes to a stage. Returns false where but for its activations' peak it is like the stage that
  // was entered before.
  bool Enter(int stage) {
    const bool is_like_last = stage > 0 && stage == stage_ + 1 && IsLikeTheOneBefore(stage);
    stage_ = stage;
    if (!is_like_last) {
      FillChunks();
      FillParameters();
      are_chunks_alike_ =
          std::all_of(by_chunk_.begin() + 1, by_chunk_.end(),
                      [&](const auto& chunk) { return HoldAlike(chunk, by_chunk_.front()); });
    }
    return !is_like_last;
  }

  // Of the stage entered last.
  const std::vector<spec::StageActivationBytes>& by_chunk() const { return by_chunk_; }
  const StageParts& numbers() {
    numbers_.activations_bytes = PeakBytes();
    return numbers_;
  }
  // Whether of stages like each other the first holds most.
  bool FirstHoldsMost() const {
    return are_chunks_alike_ && parallel_.schedule != spec::ScheduleKind::kZeroBubbleH1;
  }

 private:
  size_t num_stages() const { return parallel_.pipeline_parallel_size; }

  bool IsLikeTheOneBefore(int stage) const {
    if (stage == 1 || stage + 1 == parallel_.pipeline_parallel_size) return false;  // the ends
    if (transfers_ != nullptr && (*transfers_)[stage] != (*transfers_)[stage - 1]) return false;
    for (size_t i = stage; i < parts_.forms.size(); i += num_stages()) {
      if (parts_.forms[i] != parts_.forms[i - 1]) return false;
      if (!parts_.recomputed.empty() && parts_.recomputed[i] != parts_.recomputed[i - 1]) {
        return false;
      }
    }
    return true;
  }

  // Bounds know the forms of a virtual stage's layers alone.
  int64_t DocumentBytes(size_t virtual_stage) const {
    const spec::PerForm<int>& forms = parts_.forms[virtual_stage];
    const spec::VirtualStage stage = {.num_layers = std::accumulate(forms.begin(), forms.end(), 0),
                                      .has_embedding = virtual_stage == 0};
    return spec::SumBytes(spec::DocumentSavedTensors(costs_.job().model, microbatch_.shape, stage));
  }

  // spec::KeptBytesOf of each chunk.
  void FillChunks() {
    for (size_t chunk = 0; chunk < by_chunk_.size(); ++chunk) {
      const size_t i = chunk * num_stages() + stage_;
      runs_.clear();
      if (parts_.recomputed.empty()) {
        spec::AppendLayerRuns(parts_.forms[i], microbatch_.layers, runs_);
      } else {
        spec::AppendLayerRuns(parts_.recomputed[i], microbatch_.layers, runs_);
        spec::AppendLayerRuns(KeptForms(parts_, i), kept_.layers, runs_);
      }
      spec::StageEndBytes ends;
      if (i == 0) ends.own_bytes += microbatch_.embedding_saved_bytes;
      ends.own_bytes += DocumentBytes(i);
      if (i + 1 == parts_.forms.size()) {
        ends.head_kept_bytes = microbatch_.head_saved_bytes;
        ends.head_peak_bytes = microbatch_.head_peak_bytes;
      } else {
        ends.own_bytes += microbatch_.stage_output_bytes;
      }
      by_chunk_[chunk] = spec::HoldLayers(runs_, ends);
    }
  }

  void FillParameters() {
    const size_t last = num_stages() - 1;
    RankLayers layers{.has_embedding = stage_ == 0,
                      .has_head = static_cast<size_t>(stage_) == last};
    numbers_ = {};
    for (size_t i = stage_; i < parts_.forms.size(); i += num_stages()) {
      const spec::PerForm<int>& forms = parts_.forms[i];
      int num_dense = 0;
      int num_with_experts = 0;
      for (size_t form = 0; form < spec::kNumLayerForms; ++form) {
        (spec::FormAt(form).has_experts ? num_with_experts : num_dense) += forms[form];
      }
      layers.num_dense += num_dense;
      layers.num_with_experts += num_with_experts;
      numbers_.placeholder_bytes =
          std::max(numbers_.placeholder_bytes,
                   items_.PlaceholderBytes(
                       {.has_dense = num_dense > 0, .has_experts = num_with_experts > 0}));
    }
    numbers_.state = spec::StateBytesOf(
        ElementsIn(costs_.job().runtime, costs_.StateOf(parallel_, layers, padding_)),
        costs_.job().training,
        LayoutOfState(costs_.job().cluster, costs_.job().runtime, parallel_));
    if (layers.has_embedding) {
      const Job& job = costs_.job();
      numbers_.state =
          SplitPositions(numbers_.state, job.model, job.training, parallel_, job.runtime);
    }
    numbers_.end_elements = (layers.has_embedding ? items_.embedding_end_elements : 0) +
                            (layers.has_head ? items_.head_end_elements : 0);
    if (transfers_ == nullptr) return;
    for (size_t i = stage_; i < parts_.stages.size(); i += num_stages()) {
      numbers_.workspace_bytes =
          std::max(numbers_.workspace_bytes,
                   spec::ChunkWorkspaceBytes(costs_.job().model, microbatch_.workspace,
                                             (*transfers_)[stage_], parts_.stages[i]));
    }
  }

  int64_t PeakBytes() const {
    if (!are_chunks_alike_ || parallel_.schedule == spec::ScheduleKind::kZeroBubbleH1) {
      return spec::PeakActivationBytes(parallel_, parts_.num_microbatches, stage_, by_chunk_);
    }
    const int64_t passes = MaxPassesInFlight(parallel_, parts_.num_microbatches, stage_);
    return (passes - 1) * by_chunk_.front().saved_bytes + by_chunk_.front().working_bytes;
  }

  JobCosts& costs_;
  const spec::ParallelSpec& parallel_;
  const StepParts& parts_;
  const Padding padding_;
  const MicrobatchCost& microbatch_;
  const MicrobatchCost& kept_;  // of layers that are not recomputed
  const ParameterItems& items_;
  const std::vector<spec::TransferBuffers>* transfers_;  // none with autograd, no workspace either
  int stage_ = -1;
  std::vector<spec::StageActivationBytes> by_chunk_;
  std::vector<spec::LayerRun> runs_;  // of one chunk
  bool are_chunks_alike_ = true;
  StageParts numbers_;
};

}  // namespace

std::vector<spec::StageMemory> StepMemory(JobCosts& costs, const spec::ParallelSpec& parallel,
                                          const StepParts& parts) {
  const Job& job = costs.job();
  Stages stages(costs, parallel, parts, Padding::kOfBuckets);
  std::vector<spec::StageMemory> memory;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    stages.Enter(stage);
    const StageParts& numbers = stages.numbers();
    memory.push_back(AssembleStage(job.cluster, job.training, parallel, job.runtime, numbers));
    memory.back().terms = MemoryTermsOf(job.cluster, job.training, parallel, job.runtime, numbers,
                                        stages.by_chunk(), memory.back());
  }
  return memory;
}

StepBytes StepBytesOf(JobCosts& costs, const spec::ParallelSpec& parallel, const StepParts& parts,
                      Padding padding, double enough_bytes) {
  const Job& job = costs.job();
  const bool is_pool = job.cluster.shared_compute_units > 0;
  Stages stages(costs, parallel, parts, padding);
  StepBytes most;
  double sum_bytes = 0;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    const bool is_new = stages.Enter(stage);
    if (!is_new && !is_pool && stages.FirstHoldsMost()) continue;
    const spec::StageMemory memory =
        AssembleStage(job.cluster, job.training, parallel, job.runtime, stages.numbers());
    const auto total_bytes = static_cast<double>(memory.Total());
    most.peak_bytes = std::max(most.peak_bytes, total_bytes);
    most.needed_bytes = std::max(most.needed_bytes, NeededBytes(memory, job.runtime));
    sum_bytes += total_bytes;
    if (!is_pool && most.needed_bytes > enough_bytes) break;
  }
  if (is_pool) {
    most.needed_bytes = sum_bytes * (job.num_devices / parallel.pipeline_parallel_size);
  }
  return most;
}

double StageNeededBytes(JobCosts& costs, const spec::ParallelSpec& parallel, const StepParts& parts,
                        int stage) {
  const Job& job = costs.job();
  Stages stages(costs, parallel, parts, Padding::kOfBuckets);
  stages.Enter(stage);
  return NeededBytes(
      AssembleStage(job.cluster, job.training, parallel, job.runtime, stages.numbers()),
      job.runtime);
}

}  // namespace tessera::cost_model
