#include "cost_model/spec/pipeline_violations.h"

#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {
namespace {

using base::Concat;

class PipelineRules {
 public:
  PipelineRules(const ModelSpec& model, const TrainingSpec& training, const ParallelSpec& parallel,
                std::vector<Violation>& violations)
      : model_(model), training_(training), parallel_(parallel), violations_(violations) {}

  void Check() {
    CheckLayers();
    CheckInterleaving();
    CheckTransfers();
    CheckRecompute();
  }

 private:
  void Add(const char* constraint, int64_t needed, int64_t available, const char* unit,
           std::string message) {
    violations_.push_back(MakeViolation(constraint, needed, available, unit, std::move(message)));
  }

  void CheckLayers() {
    const int64_t num_virtual_stages =
        static_cast<int64_t>(parallel_.pipeline_parallel_size) * parallel_.virtual_pipeline_size;
    const std::vector<int>& layers = parallel_.layers_per_virtual_stage;
    if (layers.empty()) {
      if (model_.num_layers < num_virtual_stages) {
        Add("layers >= stages", num_virtual_stages, model_.num_layers, "layers",
            Concat(model_.num_layers, " layers are fewer than the ", num_virtual_stages,
                   " pipeline stages (pp ", parallel_.pipeline_parallel_size, " x vpp ",
                   parallel_.virtual_pipeline_size, ")"));
      }
      return;
    }
    const int64_t num_entries = static_cast<int64_t>(layers.size());
    if (num_entries != num_virtual_stages) {
      Add("layers per stage entries", num_virtual_stages, num_entries, "entries",
          Concat("layers_per_virtual_stage has ", num_entries, " entries for ", num_virtual_stages,
                 " virtual stages"));
      return;
    }
    int64_t sum = 0;
    for (const int count : layers) {
      if (count < 0) {
        Add("layers per stage >= 0", 0, count, "layers",
            Concat("layers_per_virtual_stage holds ", count, ", but must be at least 0"));
        return;
      }
      sum += count;
    }
    if (sum != model_.num_layers) {
      Add("layers per stage sum", model_.num_layers, sum, "layers",
          Concat("layers_per_virtual_stage sums to ", sum, ", but the model has ",
                 model_.num_layers, " layers"));
      return;
    }
    CheckStagesAreUsed();
  }

  // Between the first and the last one a pipeline stage has nothing but its layers.
  void CheckStagesAreUsed() {
    const int pp = parallel_.pipeline_parallel_size;
    for (int stage = 1; stage + 1 < pp; ++stage) {
      int64_t count = 0;
      for (size_t i = stage; i < parallel_.layers_per_virtual_stage.size(); i += pp) {
        count += parallel_.layers_per_virtual_stage[i];
      }
      if (count > 0) continue;
      Add("layers on every stage", 1, 0, "layers",
          Concat("pipeline stage ", stage, " has neither layers nor embedding nor head"));
      return;
    }
  }

  void CheckInterleaving() {
    const int pp = parallel_.pipeline_parallel_size;
    const int vpp = parallel_.virtual_pipeline_size;
    const bool interleaved = parallel_.schedule == ScheduleKind::kInterleaved;
    if (vpp > 1 && !interleaved) {
      Add("vpp needs interleaved", 1, vpp, "chunks",
          Concat("virtual pipeline size ", vpp, " needs the interleaved schedule, not ",
                 ToString(parallel_.schedule), ", which runs 1 chunk a stage"));
    }
    if (vpp > 1 && pp == 1) {
      Add("vpp needs pp > 1", 2, pp, "stages",
          Concat("virtual pipeline size ", vpp, " needs at least 2 pipeline stages, not ", pp));
    }
    if (parallel_.microbatch_group_size != 0 && !interleaved) {
      Add("groups need interleaved", 0, parallel_.microbatch_group_size, "micro-batches",
          Concat("groups of ", parallel_.microbatch_group_size,
                 " micro-batches need the interleaved schedule, not ",
                 ToString(parallel_.schedule)));
    }
    if (!interleaved) return;
    if (vpp == 1) {
      Add("interleaved needs vpp > 1", 2, vpp, "chunks",
          Concat("the interleaved schedule needs a virtual pipeline size of at least 2, not ",
                 vpp));
    }
    const int64_t per_round = parallel_.micro_batch_size * parallel_.data_parallel_size;
    if (training_.global_batch_size % per_round != 0) return;  // said already
    const int64_t num_microbatches = training_.global_batch_size / per_round;
    const int group = parallel_.microbatch_group_size;
    if (group != 0 && !FormGroups(num_microbatches, group, pp)) {
      Add("microbatches in groups", pp, num_microbatches, "micro-batches",
          Concat(num_microbatches, " micro-batches do not fall into groups of ", group,
                 ", each, also what is left for the last one, of at least the ", pp,
                 " pipeline stages"));
    }
    if (group == 0 && num_microbatches % pp != 0) {
      Add("microbatches % pp", pp, num_microbatches, "micro-batches",
          Concat("the interleaved schedule needs micro-batches in multiples of the ", pp,
                 " pipeline stages, not ", num_microbatches));
    }
  }

  void CheckTransfers() {
    if (!parallel_.scatter_gather_transfers || parallel_.sequence_parallel) return;
    const int64_t tokens =
        training_.sequence_length / parallel_.context_parallel_size * parallel_.micro_batch_size;
    const int tp = parallel_.tensor_parallel_size;
    // Three sizes may overflow together.
    const int64_t rest = tokens % tp * (model_.hidden_size % tp) % tp;
    if (rest == 0) return;
    Add("transfer % tp", tp, rest, "elements",
        Concat("a transfer of ", tokens, " x ", model_.hidden_size,
               " elements is not divisible by tensor-parallel size ", tp));
  }

  void CheckRecompute() {
    const std::vector<int>& recomputed = parallel_.recomputed_layers_per_virtual_stage;
    if (recomputed.empty()) return;
    const auto num_entries = static_cast<int64_t>(recomputed.size());
    const int64_t num_virtual_stages =
        static_cast<int64_t>(parallel_.pipeline_parallel_size) * parallel_.virtual_pipeline_size;
    if (parallel_.recompute != Recompute::kFull) {
      Add("recomputed layers need full", 1, 0, "",
          Concat("recomputed_layers_per_virtual_stage needs full recomputation, not ",
                 ToString(parallel_.recompute)));
    }
    if (num_entries != num_virtual_stages) {
      Add("recomputed layers entries", num_virtual_stages, num_entries, "entries",
          Concat("recomputed_layers_per_virtual_stage has ", num_entries, " entries for ",
                 num_virtual_stages, " virtual stages"));
      return;
    }
    // Layers of the stages are known only if nothing was wrong with them.
    const bool even = parallel_.layers_per_virtual_stage.empty();
    const int most_even =
        static_cast<int>((model_.num_layers + num_virtual_stages - 1) / num_virtual_stages);
    if (!even && parallel_.layers_per_virtual_stage.size() != recomputed.size()) return;
    for (size_t i = 0; i < recomputed.size(); ++i) {
      const int layers = even ? most_even : parallel_.layers_per_virtual_stage[i];
      if (recomputed[i] >= 0 && recomputed[i] <= layers) continue;
      Add("recomputed layers in range", layers, recomputed[i], "layers",
          Concat("virtual stage ", i, " cannot recompute ", recomputed[i], " of its ", layers,
                 " layers"));
      return;
    }
  }

  const ModelSpec& model_;
  const TrainingSpec& training_;
  const ParallelSpec& parallel_;
  std::vector<Violation>& violations_;
};

}  // namespace

Violation MakeViolation(const char* constraint, int64_t needed, int64_t available, const char* unit,
                        std::string message) {
  return {.constraint = constraint,
          .message = std::move(message),
          .needed = static_cast<double>(needed),
          .available = static_cast<double>(available),
          .unit = unit};
}

void AddPipelineViolations(const ModelSpec& model, const TrainingSpec& training,
                           const ParallelSpec& parallel, std::vector<Violation>& violations) {
  PipelineRules(model, training, parallel, violations).Check();
}

}  // namespace tessera::spec
