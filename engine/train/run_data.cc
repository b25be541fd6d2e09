#include "engine/train/run_data.h"

#include <algorithm>

#include "cost_model/base/error.h"
#include "cost_model/spec/training_schedule.h"
#include "engine/checkpoint/checkpoint_reader.h"

namespace tessera::engine {
namespace {

// Samples consumed by the end of the run. A resumed run may have had another batch size before.
int64_t TotalSamples(const TrainOptions& options) {
  const spec::TrainingSpec& training = options.plan.training;
  if (options.resume_dir.empty()) return spec::SamplesOfSteps(training, 0, training.steps);
  const CheckpointReader reader(options.resume_dir);
  const TrainProgress& progress = reader.manifest().progress;
  const int64_t steps_left = std::max<int64_t>(0, training.steps - progress.step);
  return progress.consumed_samples +
         spec::SamplesOfSteps(training, progress.consumed_samples, steps_left);
}

// What to open of the run's data.
DataOptions DataOptionsOf(const TrainOptions& options, SplitPart part, int64_t num_samples) {
  const spec::TrainingSpec& training = options.plan.training;
  return {.path = options.data_path,
          .blend = options.data_blend,
          .split = options.data_split,
          .part = part,
          .format = options.data_format,
          .order = options.data_order,
          .sequence_length = training.sequence_length,
          .num_samples = num_samples,
          .seed = training.seed,
          .vocab_size = options.plan.model.vocab_size};
}

bool HasValidationPart(const TrainOptions& options) {
  return options.data_split.weights[static_cast<size_t>(SplitPart::kValidation)] > 0;
}

bool IsEvaluated(const TrainOptions& options) {
  const ValidationOptions& validation = options.validation;
  if (!validation.data_path.empty()) return true;
  if (validation.interval == 0 && validation.num_samples == 0) return false;
  if (HasValidationPart(options)) return true;
  throw base::ConfigError("--eval-interval", "", "no data to evaluate on",
                          "--valid-data, or a second share of --split");
}

// Null where none is wanted.
std::unique_ptr<SampleSource> OpenValidationData(const TrainOptions& options) {
  if (!IsEvaluated(options)) return nullptr;
  const int64_t per_round = spec::SamplesPerRound(options.plan.parallel);
  const int64_t num_samples = NumValidationSamples(options);
  if (num_samples % per_round != 0) {
    throw base::ConfigError(
        "--eval-samples", "", base::Concat(num_samples),
        base::Concat("a multiple of micro-batch size x data-parallel size = ", per_round));
  }
  DataOptions data = DataOptionsOf(options, SplitPart::kValidation, num_samples);
  data.order = DataOrder::kSequential;
  std::string name = "the validation part of --split";
  if (!options.validation.data_path.empty()) {
    name = data.path = options.validation.data_path;
    data.blend.clear();
    data.split = {};
    data.part = SplitPart::kTrain;
  }
  auto source = OpenSampleSource(data);
  if (source->num_samples() < num_samples) {
    throw base::ConfigError(name, "", base::Concat(source->num_samples(), " samples"),
                            base::Concat("at least the ", num_samples, " of --eval-samples"));
  }
  return source;
}

}  // namespace

int64_t NumValidationSamples(const TrainOptions& options) {
  const int64_t wanted = options.validation.num_samples;
  return wanted > 0 ? wanted : options.plan.training.global_batch_size;
}

RunData OpenRunData(const TrainOptions& options) {
  return {.training =
              OpenSampleSource(DataOptionsOf(options, SplitPart::kTrain, TotalSamples(options))),
          .validation = OpenValidationData(options)};
}

}  // namespace tessera::engine
