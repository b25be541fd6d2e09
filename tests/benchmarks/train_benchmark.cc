// Speed of a training step against the machine's own sgemm, and where the rest goes.
//
//   train_benchmark [--layers 12 --hidden 768 --heads 12 --vocab 50257 --batch 4 --seq 256]
//                   [--threads 2] [--tp 1] [--dp 1] [--pp 1] [--steps 3] [--recompute full]
//
// Prints tokens per second, the share of the best sgemm rate of the same run, the peak of
// resident memory, a row for each kind of operation (rank 0), and one JSON line.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cost_model/base/error.h"
#include "cost_model/spec/op_list.h"
#include "engine/comm/thread_world.h"
#include "engine/pipeline/stopwatch.h"
#include "engine/train/core_binding.h"
#include "engine/train/rank_trainer.h"
#include "tests/benchmarks/kernel_peaks.h"
#include "tests/testing/counting_source.h"

namespace tessera {
namespace {

struct Options {
  std::map<std::string, std::string> values = {
      {"layers", "12"}, {"hidden", "768"}, {"heads", "12"},  {"vocab", "50257"},
      {"batch", "4"},   {"seq", "256"},    {"threads", "2"}, {"tp", "1"},
      {"dp", "1"},      {"pp", "1"},       {"steps", "3"},   {"recompute", "none"}};
  int Int(const char* name) const { return std::atoi(values.at(name).c_str()); }
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto found = options.values.find(std::string(argv[i]).substr(2));
    if (found == options.values.end()) {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      std::exit(base::kExitWrongInput);
    }
    found->second = argv[i + 1];
  }
  return options;
}

spec::Plan PlanOf(const Options& options) {
  spec::Plan plan;
  plan.model = {.name = "gpt2",
                .num_layers = options.Int("layers"),
                .hidden_size = options.Int("hidden"),
                .num_attention_heads = options.Int("heads"),
                .num_key_value_heads = options.Int("heads"),
                .head_dim = options.Int("hidden") / options.Int("heads"),
                .ffn_hidden_size = 4 * options.Int("hidden"),
                .vocab_size = options.Int("vocab"),
                .max_sequence_length = options.Int("seq"),
                .qkv_bias = true,
                .attention_output_bias = true,
                .mlp_bias = true,
                .tied_embeddings = true};
  plan.training = {.global_batch_size = options.Int("batch"),
                   .sequence_length = options.Int("seq"),
                   .precision = spec::Precision::kFp32};
  plan.parallel = {
      .tensor_parallel_size = options.Int("tp"),
      .pipeline_parallel_size = options.Int("pp"),
      .data_parallel_size = options.Int("dp"),
      .micro_batch_size = options.Int("batch") / (options.Int("dp") * options.Int("pp")),
      .recompute = spec::RecomputeFromString(options.values.at("recompute")).value()};
  plan.num_devices = spec::WorldSize(plan.parallel);
  return plan;
}

// Seconds and FLOPs by kind of operation; matrix products by shape of their part in the step.
class OpTimer : public base::OpObserver {
 public:
  struct Row {
    double seconds = 0;
    double flops = 0;
    int64_t count = 0;
  };
  void OnOpBegin(const base::OpRecord& /*record*/) override { watch_ = engine::Stopwatch(); }
  void OnOpEnd(const base::OpRecord& record) override {
    std::string name(ToString(record.kind));
    if (record.kind == base::OpKind::kMatMul) name = ToString(record);
    Row& row = rows_[name];
    row.seconds += watch_.seconds();
    row.flops += spec::FlopsOf(record);
    ++row.count;
  }
  const std::map<std::string, Row>& rows() const { return rows_; }

 private:
  engine::Stopwatch watch_;
  std::map<std::string, Row> rows_;
};

struct Outcome {
  std::vector<double> step_times_s;
  std::map<std::string, OpTimer::Row> ops;
  double sgemm_flops_per_s = 0;  // of all cores that the run uses
  double first_loss = 0, last_loss = 0;
};

Outcome Run(const spec::Plan& plan, int threads_per_rank, int num_steps) {
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  Outcome outcome;
  // Before and after the steps: within them the threads are bound to their ranks' cores.
  constexpr int kPeakRepeats = 5;
  kernels::SgemmPeak peak(threads_per_rank * plan.num_devices);
  for (int i = 0; i < kPeakRepeats; ++i) peak.Measure();
  engine::RunThreadRanks(plan.num_devices, {}, [&](engine::Communicator& world) {
    engine::BindToOwnCores(world.rank(), world.size(), threads_per_rank);
    const auto device = engine::MakeRankDevice({.threads_per_rank = threads_per_rank}, world);
    engine::RankTrainer trainer(plan, *device, world, source);
    OpTimer timer;
    for (int step = 0; step <= num_steps; ++step) {  // the first is warm-up
      if (step == 1 && world.rank() == 0) trainer.set_observer(&timer);
      const engine::StepResult result = trainer.Step(false);
      if (world.rank() != 0) continue;
      if (step == 0) outcome.first_loss = result.loss;
      if (step > 0) outcome.step_times_s.push_back(result.step_time_s);
      outcome.last_loss = result.loss;
    }
    if (world.rank() == 0) outcome.ops = timer.rows();
  });
  for (int i = 0; i < kPeakRepeats; ++i) peak.Measure();
  outcome.sgemm_flops_per_s = peak.best_flops_per_s();
  return outcome;
}

void Print(const Options& options, const spec::Plan& plan, const Outcome& outcome) {
  std::vector<double> sorted = outcome.step_times_s;
  std::sort(sorted.begin(), sorted.end());
  const double median_s = sorted[sorted.size() / 2];
  const double tokens =
      static_cast<double>(plan.training.global_batch_size * plan.training.sequence_length);
  const double flops = ModelFlopsPerStep(plan.model, plan.training, spec::FlopsConvention::kCausal);
  const double share = flops / median_s / outcome.sgemm_flops_per_s;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const double rss_gb = static_cast<double>(usage.ru_maxrss) * 1024 * 1e-9;

  std::vector<std::pair<double, std::string>> by_time;
  double total_s = 0;
  for (const auto& [name, row] : outcome.ops) {
    by_time.emplace_back(row.seconds, name);
    total_s += row.seconds;
  }
  std::sort(by_time.rbegin(), by_time.rend());
  const auto num_steps = static_cast<double>(outcome.step_times_s.size());
  double step_sum_s = 0;
  for (const double seconds : outcome.step_times_s) step_sum_s += seconds;
  std::printf("%-44s %8s %6s %7s %8s\n", "operation (rank 0)", "ms/step", "share", "calls",
              "GFLOP/s");
  for (const auto& [seconds, name] : by_time) {
    const OpTimer::Row& row = outcome.ops.at(name);
    std::printf("%-44s %8.1f %5.1f%% %7.0f %8.1f\n", name.c_str(), 1e3 * seconds / num_steps,
                100 * seconds / step_sum_s, static_cast<double>(row.count) / num_steps,
                row.flops / seconds * 1e-9);
  }
  std::printf("%-44s %8.1f %5.1f%%\n", "between operations",
              1e3 * (step_sum_s - total_s) / num_steps, 100 * (1 - total_s / step_sum_s));
  std::printf(
      "\nstep %.1f ms (best %.1f), %.1f tokens/s, %.1f GFLOP/s (causal), sgemm %.1f GFLOP/s, "
      "share %.1f %%, peak memory %.2f GB, loss %.4f -> %.4f\n",
      1e3 * median_s, 1e3 * sorted.front(), tokens / median_s, flops / median_s * 1e-9,
      outcome.sgemm_flops_per_s * 1e-9, 100 * share, rss_gb, outcome.first_loss, outcome.last_loss);
  std::printf(
      "{\"tokens_per_s\": %.2f, \"step_time_s\": %.4f, \"best_step_time_s\": %.4f, "
      "\"share_of_sgemm\": %.4f, \"sgemm_flops_per_s\": %.4g, \"peak_rss_bytes\": %.0f, "
      "\"threads\": %d, \"ranks\": %d}\n",
      tokens / median_s, median_s, sorted.front(), share, outcome.sgemm_flops_per_s, rss_gb * 1e9,
      options.Int("threads"), plan.num_devices);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  const Options options = Parse(argc, argv);
  const spec::Plan plan = PlanOf(options);
  const int threads_per_rank = std::max(1, options.Int("threads") / plan.num_devices);
  Print(options, plan, Run(plan, threads_per_rank, options.Int("steps")));
  return 0;
}
