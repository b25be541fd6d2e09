// From flags to a request: declared in job_options.h.
#include <algorithm>
#include <bit>
#include <set>

#include "cost_model/base/error.h"
#include "cost_model/base/math.h"
#include "cost_model/spec/parameter_list.h"
#include "cost_model/spec/spec_json.h"
#include "planner/cli/job_options.h"
#include "planner/error_band_json.h"
#include "planner/target.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;
using spec::Precision;

// Tokens of a batch that trained models of this size well: Brown et al. 2020, arXiv:2005.14165,
// Table 2.1, rounded to powers of two.
int64_t UsualBatchTokens(int64_t num_parameters) {
  constexpr int64_t kMebi = 1024 * 1024;
  if (num_parameters < 1'000'000'000) return kMebi / 2;
  if (num_parameters < 4'000'000'000) return kMebi;
  if (num_parameters < 20'000'000'000) return 2 * kMebi;
  return 4 * kMebi;
}

// On a pool of a machine's cores: few samples, so that a step takes seconds.
constexpr int64_t kPoolBatchSize = 8;

// Far beyond any batch trained with.
constexpr int64_t kMaxGlobalBatchSize = 1'000'000;

int64_t DefaultGlobalBatchSize(const cost_model::Job& job) {
  const int64_t num_devices = job.num_devices;
  if (job.cluster.shared_compute_units > 0) {
    return base::RoundUp(kPoolBatchSize, num_devices);
  }
  const int64_t samples = std::max<int64_t>(
      1, UsualBatchTokens(spec::NumParameters(job.model)) / job.training.sequence_length);
  const auto rounded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(samples)));
  return base::RoundUp(std::max(rounded, num_devices), num_devices);
}

Precision DefaultPrecision(const spec::ClusterSpec& cluster) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    if (cluster.device.peak_flops_per_s.count(spec::TypesOf(precision).matmul) > 0) {
      return precision;
    }
  }
  return Precision::kFp32;
}

int DefaultNumDevices(const spec::ClusterSpec& cluster) {
  return cluster.shared_compute_units > 0 ? cluster.shared_compute_units
                                          : spec::DevicesPerDomain(cluster);
}

// A flag before the model's file; nothing where neither speaks.
template <typename T>
std::optional<T> FlagOrFile(const std::optional<T>& flag, const T& in_file, bool is_in_file) {
  if (flag) return flag;
  if (is_in_file) return in_file;
  return std::nullopt;
}

// What a Megatron-style model file says beside the model.
struct FileKeys {
  spec::ParallelSpec parallel;
  std::set<std::string> names;
  bool Has(const char* name) const { return names.count(name) > 0; }
};

void FillPins(const JobOptions& options, const FileKeys& file, PinnedAxes& pins) {
  const auto parsed = [](const std::optional<std::string>& text, auto from_string) {
    return text ? from_string(*text) : std::nullopt;
  };
  const spec::ParallelSpec& in_file = file.parallel;
  pins.tensor_parallel_size = FlagOrFile(options.tensor_parallel_size, in_file.tensor_parallel_size,
                                         file.Has("tensor_parallel_size"));
  pins.pipeline_parallel_size =
      FlagOrFile(options.pipeline_parallel_size, in_file.pipeline_parallel_size,
                 file.Has("pipeline_parallel_size"));
  pins.data_parallel_size = FlagOrFile(options.data_parallel_size, in_file.data_parallel_size,
                                       file.Has("data_parallel_size"));
  pins.context_parallel_size =
      FlagOrFile(options.context_parallel_size, in_file.context_parallel_size,
                 file.Has("context_parallel_size"));
  pins.expert_parallel_size = FlagOrFile(options.expert_parallel_size, in_file.expert_parallel_size,
                                         file.Has("expert_parallel_size"));
  pins.expert_tensor_parallel_size =
      FlagOrFile(options.expert_tensor_parallel_size, in_file.expert_tensor_parallel_size,
                 file.Has("expert_tensor_parallel_size"));
  pins.context_kind = FlagOrFile(parsed(options.context_kind, spec::ContextKindFromString),
                                 in_file.context_kind, file.Has("context_kind"));
  pins.num_recomputed_layers = options.num_recomputed_layers;
  pins.virtual_pipeline_size =
      FlagOrFile(options.virtual_pipeline_size, in_file.virtual_pipeline_size,
                 file.Has("virtual_pipeline_size"));
  pins.micro_batch_size =
      FlagOrFile(options.micro_batch_size, in_file.micro_batch_size, file.Has("micro_batch_size"));
  pins.sequence_parallel = FlagOrFile(options.sequence_parallel, in_file.sequence_parallel,
                                      file.Has("sequence_parallel"));
  pins.recompute = FlagOrFile(parsed(options.recompute, spec::RecomputeFromString),
                              in_file.recompute, file.Has("recompute"));
  pins.zero_stage = FlagOrFile(options.zero_stage, in_file.zero_stage, file.Has("zero_stage"));
  pins.schedule = FlagOrFile(parsed(options.schedule, spec::ScheduleKindFromString),
                             in_file.schedule, file.Has("schedule"));
}

void FillFixed(const JobOptions& options, const FileKeys& file, spec::ParallelSpec& fixed) {
  fixed = file.parallel;
  if (options.attention) fixed.attention = *spec::AttentionKindFromString(*options.attention);
  if (options.rank_order) fixed.rank_order = *options.rank_order;
  if (options.zero_group_size) fixed.zero_group_size = *options.zero_group_size;
  if (options.microbatch_group_size) fixed.microbatch_group_size = *options.microbatch_group_size;
  if (options.offload_optimizer) fixed.offload_optimizer = true;
  if (options.overlap_param_gather) fixed.overlap_param_gather = true;
  if (options.overlap_tp_comm) fixed.overlap_tp_comm = true;
  if (options.overlap_pp_comm) fixed.overlap_pp_comm = true;
  if (!options.layers_per_virtual_stage.empty()) {
    fixed.layers_per_virtual_stage = options.layers_per_virtual_stage;
  }
}

void FillTraining(const JobOptions& options, const FileKeys& file, cost_model::Job& job,
                  std::vector<std::string>& notes) {
  spec::TrainingSpec& training = job.training;
  if (!options.hyperparameters.empty()) {
    spec::LoadHyperparameters(options.hyperparameters, training);
  }
  if (options.sequence_length) training.sequence_length = *options.sequence_length;
  if (options.global_batch_size) training.global_batch_size = *options.global_batch_size;
  if (options.steps) training.steps = *options.steps;
  if (options.seed) training.seed = *options.seed;
  if (options.hidden_dropout) training.dropout.hidden = *options.hidden_dropout;
  if (options.attention_dropout) training.dropout.attention = *options.attention_dropout;
  if (options.embedding_dropout) training.dropout.embedding = *options.embedding_dropout;
  if (options.precision) {
    training.precision = *spec::PrecisionFromString(*options.precision);
  } else if (!file.Has("precision")) {
    training.precision = DefaultPrecision(job.cluster);
  }
  if (training.sequence_length == 0) training.sequence_length = job.model.max_sequence_length;
  if (training.global_batch_size == 0) {
    training.global_batch_size = DefaultGlobalBatchSize(job);
    notes.push_back(Concat("--global-batch-size is not given: taking ",
                           FormatCount(training.global_batch_size), " samples (",
                           FormatCount(training.global_batch_size * training.sequence_length),
                           " tokens)."));
  }
  if (training.global_batch_size > kMaxGlobalBatchSize) {
    throw base::ConfigError("--global-batch-size", "", std::to_string(training.global_batch_size),
                            Concat("at most ", FormatCount(kMaxGlobalBatchSize), " samples"));
  }
}

}  // namespace

Request MakeRequest(const JobOptions& options, std::vector<std::string>& notes) {
  // Checked here and not while parsing, where a misspelt flag would be told as a missing one.
  if (options.model.empty()) throw base::ConfigError("--model is required");
  if (options.cluster.empty()) throw base::ConfigError("--cluster is required");
  Request request;
  cost_model::Job& job = request.job;
  job.training.global_batch_size = 0;  // not said yet
  FileKeys file;
  std::vector<std::string> keys_set;
  job.model = spec::LoadModel(options.model, &job.training, &file.parallel, &keys_set);
  file.names = {keys_set.begin(), keys_set.end()};
  job.cluster = spec::LoadCluster(options.cluster);
  job.num_devices = options.num_devices.value_or(DefaultNumDevices(job.cluster));
  if (job.cluster.max_devices > 0 && job.num_devices > job.cluster.max_devices) {
    throw base::ConfigError(
        "--devices", "", std::to_string(job.num_devices),
        Concat("at most the ", job.cluster.max_devices, " devices of ", job.cluster.name));
  }
  job.convention = options.flops_convention == "causal" ? spec::FlopsConvention::kCausal
                                                        : spec::FlopsConvention::kFull;
  // Our own engine where it can run the plan: on a pool of this machine's cores.
  const bool is_pool = job.cluster.shared_compute_units > 0;
  LoadTarget(options.target.value_or(is_pool ? "tessera" : "megatron"), request);
  request.error_band = LoadErrorBand();
  FillTraining(options, file, job, notes);
  FillPins(options, file, request.pins);
  FillFixed(options, file, request.fixed);
  return request;
}

}  // namespace tessera::planner
