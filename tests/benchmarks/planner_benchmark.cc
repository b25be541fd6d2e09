// Speed of the planner on one core: layouts priced per second, and whole answers.
#include <benchmark/benchmark.h>

#include "cost_model/spec/spec_json.h"
#include "planner/best_practice.h"
#include "planner/explanation.h"
#include "planner/search_space.h"
#include "planner/sensitivity.h"
#include "planner/target.h"

namespace tessera::planner {
namespace {

struct Question {
  const char* model;
  const char* cluster;
  int num_devices;
  int64_t global_batch_size;
  int64_t sequence_length;
};

Request MakeRequest(const Question& question) {
  Request request;
  request.job.model = spec::LoadModel(question.model);
  request.job.cluster = spec::LoadCluster(question.cluster);
  request.job.num_devices = question.num_devices;
  request.job.training.global_batch_size = question.global_batch_size;
  request.job.training.sequence_length = question.sequence_length;
  LoadTarget("megatron", request);
  return request;
}

// Layouts of the search space that keep the rules, evenly taken from it, priced once each, without
// any bound; a cold cache each time.
void PriceLayouts(benchmark::State& state, const Question& question) {
  constexpr size_t kMostLayouts = 50'000;
  const Request request = MakeRequest(question);
  std::vector<spec::ParallelSpec> layouts;
  size_t interval = 1;
  size_t num_valid = 0;
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    if (FindRuleViolation(request, layout) || num_valid++ % interval != 0) return;
    layouts.push_back(layout);
    if (layouts.size() < 2 * kMostLayouts) return;
    for (size_t i = 1; i < kMostLayouts; ++i) layouts[i] = std::move(layouts[2 * i]);
    layouts.resize(kMostLayouts);
    interval *= 2;
  });
  for ([[maybe_unused]] auto _ : state) {
    cost_model::JobCosts costs(request.job);
    for (const spec::ParallelSpec& layout : layouts) {
      benchmark::DoNotOptimize(cost_model::PriceStepFast(costs, layout));
    }
  }
  state.counters["layouts"] = static_cast<double>(layouts.size());
  state.counters["layouts/s"] = benchmark::Counter(static_cast<double>(layouts.size()),
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

// From the request to the explained ranking, as `tessera plan` answers it: layouts of the whole
// space, of them those priced, pruned by bounds and ruled out, and how many are decided a second.
void Answer(benchmark::State& state, const Question& question) {
  const Request request = MakeRequest(question);
  SearchResult search;
  for ([[maybe_unused]] auto _ : state) {
    cost_model::JobCosts costs(request.job);
    search = Search(request, costs);
    const auto practice = PriceBestPractice(request, costs);
    if (search.rows.empty()) continue;
    benchmark::DoNotOptimize(Explain(request, search, practice));
    benchmark::DoNotOptimize(FindSensitivities(request, search));
  }
  state.counters["layouts"] = static_cast<double>(search.num_layouts);
  state.counters["priced"] = static_cast<double>(search.num_priced);
  state.counters["pruned"] = static_cast<double>(search.num_pruned);
  state.counters["ruled_out"] =
      static_cast<double>(search.num_layouts - search.num_priced - search.num_pruned);
  state.counters["layouts/s"] = benchmark::Counter(static_cast<double>(search.num_layouts),
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

// As `tessera what-if` sweeps: the best layout of each combination, one full search a point.
void Sweep(benchmark::State& state) {
  constexpr const char* kClusters[] = {"dgx-a100-80gb", "dgx-h100", "dgx-b200"};
  constexpr int64_t kBatchSizes[] = {512, 1024, 2048, 4096};
  constexpr int kFewestDevices = 8;
  constexpr int kMostDevices = 16384;
  double num_points = 0;
  double num_layouts = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (const char* cluster : kClusters) {
      for (int devices = kFewestDevices; devices <= kMostDevices; devices *= 2) {
        for (const int64_t batch_size : kBatchSizes) {
          const Request request =
              MakeRequest({"llama3-70b", cluster, devices, batch_size, /*sequence_length=*/8192});
          cost_model::JobCosts costs(request.job);
          num_layouts += static_cast<double>(SearchBest(request, costs).num_layouts);
          ++num_points;
        }
      }
    }
  }
  state.counters["points"] = benchmark::Counter(num_points, benchmark::Counter::kAvgIterations);
  state.counters["layouts"] = benchmark::Counter(num_layouts, benchmark::Counter::kAvgIterations);
  state.counters["points/s"] = benchmark::Counter(num_points, benchmark::Counter::kIsRate);
}

constexpr Question kGpt3{"gpt3-175b", "dgx-a100-80gb", 1024, 1536, 2048};
constexpr Question kLlama3{"llama3-405b", "dgx-h100", 16384, 2048, 8192};
constexpr Question kTuring{"turing-530b", "dgx-a100-80gb", 2520, 2520, 2048};
constexpr Question kSmall{"llama3-8b", "dgx-h100", 8, 512, 8192};
constexpr Question kMixtral{"mixtral-8x7b", "dgx-h100", 256, 1024, 4096};
constexpr Question kDeepSeek{"deepseek-v3", "dgx-h100", 1024, 15360, 4096};

BENCHMARK_CAPTURE(PriceLayouts, gpt3_175b_1024_a100, kGpt3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PriceLayouts, llama3_405b_16384_h100, kLlama3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PriceLayouts, turing_530b_2520_a100, kTuring)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PriceLayouts, llama3_8b_8_h100, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PriceLayouts, mixtral_8x7b_256_h100, kMixtral)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Answer, gpt3_175b_1024_a100, kGpt3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Answer, llama3_405b_16384_h100, kLlama3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Answer, mixtral_8x7b_256_h100, kMixtral)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Answer, deepseek_v3_1024_h100, kDeepSeek)->Unit(benchmark::kMillisecond);
BENCHMARK(Sweep)->Name("Sweep/llama3_70b_144_points")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera::planner
