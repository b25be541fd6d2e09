// What changes from step to step of a training: the size of its batch, learning rate and weight
// decay.
#pragma once

#include <cstdint>

#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

// The global batch of the step that begins after so many samples. Without a ramp global_batch_size;
// with one start + floor(consumed / (samples / n)) * increment, n = (global - start) / increment.
// Source: Megatron-LM, megatron/core/num_microbatches_calculator.py.
int64_t BatchSizeAt(const TrainingSpec& training, int64_t consumed_samples);
// Samples that so many steps take from there on.
int64_t SamplesOfSteps(const TrainingSpec& training, int64_t consumed_samples, int64_t num_steps);
// Whole steps, from the beginning, that so many samples are enough for.
int64_t StepsOfSamples(const TrainingSpec& training, int64_t num_samples);

// Schedules count in steps of the whole global batch: with a ramp a smaller one is a part of a
// step. Where step `step` (from 1) stands, after which `consumed_samples` are consumed; and where
// the training ends.
double ScheduleStep(const TrainingSpec& training, int64_t step, int64_t consumed_samples);
double ScheduleLength(const TrainingSpec& training);

// Learning rate at such a place of `num_steps`: warm-up on a line from lr_warmup_init to lr, then
//   constant             lr
//   linear, cosine       from lr at the end of the warm-up to min_lr at lr_decay_steps
//   inverse-square-root  lr * sqrt(warm-up steps / step), no less than min_lr
//   wsd                  lr, but for its last steps before lr_decay_steps: of these a share r has
//                        passed, and of lr - min_lr is left 1 - r (linear), (1 + cos(pi r)) / 2
//                        (cosine), 2 * 0.5^r - 1 (exponential), 1 - sqrt(r) (minus-sqrt)
// and min_lr after lr_decay_steps, unless it is constant.
// Source: Megatron-LM, megatron/core/optimizer_param_scheduler.py; its first step, at 0, is step 1
// here.
double LearningRate(const OptimizerSpec& optimizer, double step, double num_steps);
// Weight decay there: from weight_decay to end_weight_decay at num_steps, on a line or on half a
// cosine.
double WeightDecay(const OptimizerSpec& optimizer, double step, double num_steps);

}  // namespace tessera::spec
