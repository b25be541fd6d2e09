#include "cost_model/spec/training_violations.h"

#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/spec/pipeline_schedule.h"
#include "cost_model/spec/pipeline_violations.h"

namespace tessera::spec {
namespace {

using base::Concat;

class TrainingRules {
 public:
  TrainingRules(const ModelSpec& model, const TrainingSpec& training, const ParallelSpec& parallel,
                std::vector<Violation>& violations)
      : model_(model), training_(training), parallel_(parallel), violations_(violations) {}

  void Check() {
    CheckLearningRate();
    if (training_.batch_ramp) CheckRamp(*training_.batch_ramp);
    CheckEndOfDocument();
  }

 private:
  void CheckEndOfDocument() {
    const int64_t end = training_.eod_token;
    const char* const option = training_.eod_mask_loss          ? "eod_mask_loss"
                               : training_.reset_position_ids   ? "reset_position_ids"
                               : training_.reset_attention_mask ? "reset_attention_mask"
                                                                : nullptr;
    if (option == nullptr || (end >= 0 && end < model_.vocab_size)) return;
    Add("eod token", model_.vocab_size, end, "",
        Concat(option, " needs eod_token, the end of a document, which is ", end,
               ", but must be one of the ", model_.vocab_size, " ids"));
  }

  void Add(const char* constraint, int64_t needed, int64_t available, const char* unit,
           std::string message) {
    violations_.push_back(MakeViolation(constraint, needed, available, unit, std::move(message)));
  }

  void CheckLearningRate() {
    const OptimizerSpec& optimizer = training_.optimizer;
    if (optimizer.lr_warmup_init > optimizer.lr) {
      Add("warm-up rises", 0, 0, "",
          Concat("the learning rate warms up from lr_warmup_init ", optimizer.lr_warmup_init,
                 ", more than lr ", optimizer.lr));
    }
    if (optimizer.lr_decay_style != LrDecayStyle::kWsd) return;
    const int64_t end = optimizer.lr_decay_steps > 0 ? optimizer.lr_decay_steps : training_.steps;
    const int64_t decay = optimizer.lr_wsd_decay_steps;
    if (decay >= 1 && decay <= end) return;
    Add("wsd decay steps", decay < 1 ? 1 : end, decay, "steps",
        Concat("a learning rate of style wsd decays in its last lr_wsd_decay_steps, which are ",
               decay, ", but must be 1 to the ", end, " steps of the schedule"));
  }

  void CheckRamp(const BatchRamp& ramp) {
    const int64_t whole = training_.global_batch_size;
    const int64_t grows_by = whole - ramp.start_batch_size;
    if (ramp.start_batch_size < 1 || ramp.increment < 1 || ramp.samples < 1 || grows_by < 0) {
      Add("ramp in range", whole, ramp.start_batch_size, "samples",
          Concat("the batch cannot grow from ", ramp.start_batch_size, " by ", ramp.increment,
                 " over ", ramp.samples, " samples to the global batch of ", whole));
      return;
    }
    if (grows_by % ramp.increment != 0) {
      Add("ramp % increment", ramp.increment, grows_by, "samples",
          Concat("from ", ramp.start_batch_size, " to ", whole, " the batch grows by ", grows_by,
                 " samples, which increments of ", ramp.increment, " do not divide"));
      return;
    }
    const int64_t per_round = parallel_.micro_batch_size * parallel_.data_parallel_size;
    for (const int64_t size : {ramp.start_batch_size, ramp.start_batch_size + ramp.increment}) {
      if (size > whole || size % per_round == 0) continue;
      Add("ramp % (micro batch * dp)", per_round, size, "samples",
          Concat("the batch of ", size, " samples, which the ramp comes to, does not divide by ",
                 "micro-batch size ", parallel_.micro_batch_size, " x data-parallel size ",
                 parallel_.data_parallel_size, " = ", per_round));
      return;
    }
    if (parallel_.schedule == ScheduleKind::kInterleaved) CheckInterleaving(ramp, per_round);
  }

  void CheckInterleaving(const BatchRamp& ramp, int64_t per_round) {
    const int num_stages = parallel_.pipeline_parallel_size;
    for (int64_t size = ramp.start_batch_size; size < training_.global_batch_size;
         size += ramp.increment) {
      if (FormGroups(size / per_round, MicrobatchGroupSize(parallel_), num_stages)) continue;
      Add("ramp in groups", num_stages, size / per_round, "micro-batches",
          Concat("the ramp's batch of ", size, " samples makes ", size / per_round,
                 " micro-batches, which do not fall into the interleaved schedule's groups of ",
                 MicrobatchGroupSize(parallel_)));
      return;
    }
  }

  const ModelSpec& model_;
  const TrainingSpec& training_;
  const ParallelSpec& parallel_;
  std::vector<Violation>& violations_;
};

}  // namespace

void AddTrainingViolations(const ModelSpec& model, const TrainingSpec& training,
                           const ParallelSpec& parallel, std::vector<Violation>& violations) {
  TrainingRules(model, training, parallel, violations).Check();
}

}  // namespace tessera::spec
