// Speed of the planner on one core: layouts priced per second, and whole answers.
#include <benchmark/benchmark.h>

#include "cost_model/spec/spec_json.h"
#include "planner/best_practice.h"
#include "planner/explanation.h"
#include "planner/search_space.h"

namespace tessera::planner {
namespace {

struct Question {
  const char* model;
  const char* cluster;
  int num_devices;
  int64_t global_batch_size;
};

Request MakeRequest(const Question& question) {
  Request request;
  request.job.model = spec::LoadModel(question.model);
  request.job.cluster = spec::LoadCluster(question.cluster);
  request.job.num_devices = question.num_devices;
  request.job.training.global_batch_size = question.global_batch_size;
  request.job.training.sequence_length = request.job.model.max_sequence_length;
  return request;
}

// Every layout of the search space that keeps the rules, priced once; a cold cache each time.
void PriceLayouts(benchmark::State& state, const Question& question) {
  const Request request = MakeRequest(question);
  std::vector<spec::ParallelSpec> layouts;
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    const bool is_valid = spec::FindViolations(request.job.model, request.job.training, layout,
                                               request.job.num_devices)
                              .empty();
    if (is_valid) layouts.push_back(layout);
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

// From the request to the explained ranking, as `tessera plan` answers it.
void Answer(benchmark::State& state, const Question& question) {
  const Request request = MakeRequest(question);
  int64_t num_layouts = 0;
  for ([[maybe_unused]] auto _ : state) {
    cost_model::JobCosts costs(request.job);
    const SearchResult search = Search(request, costs);
    const auto practice = PriceBestPractice(request, costs);
    benchmark::DoNotOptimize(Explain(request, search, practice));
    num_layouts = search.num_layouts;
  }
  state.counters["layouts"] = static_cast<double>(num_layouts);
}

constexpr Question kGpt3{"gpt3-175b", "dgx-a100-80gb", 1024, 1536};
constexpr Question kLlama3{"llama3-405b", "dgx-h100", 16384, 2048};
constexpr Question kTuring{"turing-530b", "dgx-a100-80gb", 2520, 2520};
constexpr Question kSmall{"llama3-8b", "dgx-h100", 8, 512};

BENCHMARK_CAPTURE(PriceLayouts, gpt3_175b_1024_a100, kGpt3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PriceLayouts, llama3_405b_16384_h100, kLlama3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PriceLayouts, turing_530b_2520_a100, kTuring)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PriceLayouts, llama3_8b_8_h100, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Answer, gpt3_175b_1024_a100, kGpt3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Answer, llama3_405b_16384_h100, kLlama3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera::planner
