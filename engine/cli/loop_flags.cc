#include "engine/cli/loop_flags.h"

namespace tessera::engine {
namespace {

constexpr int64_t kMost = 1'000'000'000;

void AddValidationFlags(CLI::App& command, ValidationOptions& validation) {
  command.add_option("--valid-data", validation.data_path,
                     "Report the loss over this data too, by forward passes alone; in the format "
                     "of --data. Without it --eval-interval and --eval-samples take the second "
                     "share of --split");
  command
      .add_option("--eval-interval", validation.interval,
                  "Every so many steps (0: at the end alone): --valid-data held-out.bin "
                  "--eval-interval 100 --eval-samples 512")
      ->check(CLI::Range(int64_t{0}, kMost));
  command
      .add_option("--eval-samples", validation.num_samples,
                  "Over its first so many samples, a multiple of micro-batch size x data ranks (0: "
                  "as many as a global batch)")
      ->check(CLI::Range(int64_t{0}, kMost));
}

void AddGuardFlags(CLI::App& command, LoopFlags& flags, GuardOptions& guard) {
  command
      .add_option("--on-nan", flags.on_nan,
                  "A loss or gradient that is no number: stop, or skip the step's update and go "
                  "on; either way step, rank and the first such tensor are told")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->capture_default_str();
  command
      .add_option("--on-spike", flags.on_spike,
                  "A loss or gradient norm far off: ignore, skip or stop, as in --on-spike skip "
                  "--spike-loss-factor 3 --spike-grad-norm 100")
      ->check(CLI::IsMember({"ignore", "skip", "stop"}))
      ->capture_default_str();
  command
      .add_option("--spike-loss-factor", guard.spike_loss_factor,
                  "A loss above so many times the mean of the last 100 steps is far off (0: none)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--spike-grad-norm", guard.spike_grad_norm,
                  "A gradient norm above this is far off (0: none)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--max-skipped-steps", guard.most_skipped_steps,
                  "Stop when more steps in a row than this had to be skipped")
      ->check(CLI::Range(int64_t{0}, kMost))
      ->capture_default_str();
}

void AddBatchFlags(CLI::App& command, LoopFlags& flags) {
  command
      .add_option("--rampup-batch-size", flags.ramp,
                  "START INCREMENT SAMPLES: a global batch that grows from START by INCREMENT, in "
                  "equal intervals over so many samples, up to the plan's: --rampup-batch-size 32 "
                  "32 100000")
      ->expected(3)
      ->check(CLI::Range(int64_t{1}, kMost));
  command.add_flag("--eod-mask-loss", flags.eod_mask_loss,
                   "Leave out of the loss what is predicted from the end of a document: "
                   "--eod-mask-loss --eod-token 50256");
  command.add_flag("--reset-position-ids", flags.reset_position_ids,
                   "Count positions from 0 again behind the end of a document: "
                   "--reset-position-ids --reset-attention-mask --eod-token 50256");
  command.add_flag("--reset-attention-mask", flags.reset_attention_mask,
                   "Let a token attend to no other document of its sample than its own; the end "
                   "of a document belongs to what it ends");
  command
      .add_option("--eod-token", flags.eod_token,
                  "The id that ends a document, unless the plan says it")
      ->check(CLI::Range(int64_t{0}, kMost));
}

}  // namespace

void AddLoopFlags(CLI::App& command, LoopFlags& flags, TrainOptions& options) {
  AddValidationFlags(command, options.validation);
  AddGuardFlags(command, flags, options.guard);
  AddBatchFlags(command, flags);
  command.add_option("--tensorboard", flags.tensorboard,
                     "Write the steps as events of TensorBoard into this folder, as in "
                     "--tensorboard runs/first; look at them with `tensorboard --logdir runs`");
  command.add_flag("--deterministic", options.deterministic,
                   "The same bits whenever the same plan is run: CPUs and our own kernels give "
                   "them in any case, on a GPU this also asks cuDNN for a backward pass of "
                   "attention without atomic additions, which takes longer");
}

void ApplyLoopFlags(const LoopFlags& flags, TrainOptions& options) {
  spec::TrainingSpec& training = options.plan.training;
  if (flags.eod_token >= 0) training.eod_token = flags.eod_token;
  if (flags.eod_mask_loss) training.eod_mask_loss = true;
  if (flags.reset_position_ids) training.reset_position_ids = true;
  if (flags.reset_attention_mask) training.reset_attention_mask = true;
  if (!flags.ramp.empty()) {
    training.batch_ramp = spec::BatchRamp{.start_batch_size = flags.ramp.at(0),
                                          .increment = flags.ramp.at(1),
                                          .samples = flags.ramp.at(2)};
  }
  options.guard.on_nan = NanActionFromString(flags.on_nan);
  options.guard.on_spike = SpikeActionFromString(flags.on_spike);
}

}  // namespace tessera::engine
