// What each way to spread a training over two cores costs, and where the difference goes.
//
//   layout_benchmark [--rounds 5] [--steps 2] [--layers 8] [--hidden 256] [--batch 8] [--seq 128]
//                    [--only TEXT] [--json FILE]
//
// One model (and one with experts) is trained under each layout: two ranks of a thread each, and
// as references one rank of one and of two threads. The layouts take turns, round after round, as
// a machine's speed wanders; a layout's time is the median of its steps. The parts of a step are
// the engine's own (engine/train/step_clock.h), of the median step, mean of the ranks.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/comm/thread_world.h"
#include "engine/train/core_binding.h"
#include "engine/train/engine_limits.h"
#include "engine/train/rank_trainer.h"
#include "tests/benchmarks/benchmark_layouts.h"
#include "tests/testing/counting_source.h"

namespace tessera::benchmarks {
namespace {

using Options = std::map<std::string, std::string>;

Options Parse(int argc, char** argv) {
  Options options = {{"rounds", "5"}, {"steps", "2"}, {"layers", "8"}, {"hidden", "256"},
                     {"batch", "8"},  {"seq", "128"}, {"only", ""},    {"json", ""}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto found = options.find(std::string(argv[i]).substr(2));
    if (found == options.end()) {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      std::exit(base::kExitWrongInput);
    }
    found->second = argv[i + 1];
  }
  return options;
}

struct Part {
  const char* name;
  double spec::TimeBreakdown::*seconds;
};
constexpr Part kParts[] = {{"forward", &spec::TimeBreakdown::forward_s},
                           {"backward", &spec::TimeBreakdown::backward_s},
                           {"recompute", &spec::TimeBreakdown::recompute_s},
                           {"tp", &spec::TimeBreakdown::tp_comm_s},
                           {"cp", &spec::TimeBreakdown::cp_comm_s},
                           {"ep", &spec::TimeBreakdown::ep_comm_s},
                           {"dp", &spec::TimeBreakdown::dp_comm_s},
                           {"pp", &spec::TimeBreakdown::pp_comm_s},
                           {"bubble", &spec::TimeBreakdown::bubble_s},
                           {"optimizer", &spec::TimeBreakdown::optimizer_s},
                           {"other", &spec::TimeBreakdown::other_s}};

struct MeasuredStep {
  double step_time_s = 0;
  spec::TimeBreakdown time;  // mean of the ranks
};

// Steps after one that warms up.
std::vector<MeasuredStep> Train(const Layout& layout, int num_steps) {
  const spec::Plan& plan = layout.plan;
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  std::vector<MeasuredStep> steps(static_cast<size_t>(num_steps));
  std::mutex mutex;
  engine::RunThreadRanks(plan.num_devices, {}, [&](engine::Communicator& world) {
    engine::BindToOwnCores(world.rank(), world.size(), plan.threads_per_rank);
    const auto device = engine::MakeRankDevice({.threads_per_rank = plan.threads_per_rank}, world);
    engine::RankTrainer trainer(plan, *device, world, source);
    trainer.Step(false);
    for (MeasuredStep& step : steps) {
      const engine::StepResult result = trainer.Step(false);
      const std::lock_guard lock(mutex);
      step.step_time_s = std::max(step.step_time_s, result.step_time_s);
      for (const Part& part : kParts) {
        step.time.*part.seconds += result.time.*part.seconds / plan.num_devices;
      }
    }
  });
  return steps;
}

MeasuredStep MedianOf(std::vector<MeasuredStep> steps) {
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end(),
                   [](const auto& a, const auto& b) { return a.step_time_s < b.step_time_s; });
  return *middle;
}

struct Row {
  Layout layout;
  std::vector<MeasuredStep> steps;
  MeasuredStep median;
};

bool IsRefused(const Layout& layout) {
  try {
    engine::CheckExecutable(layout.plan);
    return false;
  } catch (const base::InfeasibleError& error) {
    std::fprintf(stderr, "%s is left out: %s\n", layout.name.c_str(), error.what());
    return true;
  }
}

std::vector<Row> Measure(const Options& options) {
  const auto size = [&](const char* name) { return std::atoi(options.at(name).c_str()); };
  std::vector<Row> rows;
  for (const Layout& layout : TwoCoreLayouts({.num_layers = size("layers"),
                              .hidden_size = size("hidden"),
                              .global_batch_size = size("batch"),
                              .sequence_length = size("seq")})) {
    const bool is_wanted = layout.name.find(options.at("only")) != std::string::npos;
    if (!layout.is_reference && !is_wanted) continue;
    if (IsRefused(layout)) continue;
    rows.push_back({.layout = layout});
  }
  for (int round = 0; round < size("rounds"); ++round) {
    for (Row& row : rows) {
      const std::vector<MeasuredStep> steps = Train(row.layout, size("steps"));
      row.steps.insert(row.steps.end(), steps.begin(), steps.end());
    }
  }
  for (Row& row : rows) row.median = MedianOf(row.steps);
  return rows;
}

double ReferenceTime(const std::vector<Row>& rows, const Layout& layout, int num_threads) {
  for (const Row& row : rows) {
    if (row.layout.is_reference && row.layout.plan.model == layout.plan.model &&
        row.layout.plan.threads_per_rank == num_threads) {
      return row.median.step_time_s;
    }
  }
  throw base::ConfigError("layouts", layout.name, "no reference", "one of its model");
}

void PrintTable(const std::vector<Row>& rows) {
  std::printf("%-28s %8s %7s %7s  ms of a step, mean of the ranks\n", "", "", "of one", "of two");
  std::printf("%-28s %8s %7s %7s ", "layout", "ms", "thread", "threads");
  for (const Part& part : kParts) std::printf(" %9s", part.name);
  std::printf("\n");
  for (const Row& row : rows) {
    const double step_s = row.median.step_time_s;
    std::printf("%-28s %8.1f %7.2f %7.2f ", row.layout.name.c_str(), 1e3 * step_s,
                step_s / ReferenceTime(rows, row.layout, 1),
                step_s / ReferenceTime(rows, row.layout, 2));
    for (const Part& part : kParts) std::printf(" %9.1f", 1e3 * (row.median.time.*part.seconds));
    std::printf("\n");
  }
}

void PrintJson(const std::vector<Row>& rows, std::FILE* file) {
  std::fprintf(file, "[");
  const char* separator = "\n";
  for (const Row& row : rows) {
    const double step_s = row.median.step_time_s;
    std::fprintf(file,
                 "%s  {\"layout\": \"%s\", \"step_time_s\": %.6f, \"over_one_thread\": %.4f, "
                 "\"over_two_threads\": %.4f, \"num_steps\": %zu, \"time\": {",
                 separator, row.layout.name.c_str(), step_s,
                 step_s / ReferenceTime(rows, row.layout, 1),
                 step_s / ReferenceTime(rows, row.layout, 2), row.steps.size());
    const char* comma = "";
    for (const Part& part : kParts) {
      std::fprintf(file, "%s\"%s_s\": %.6f", comma, part.name, row.median.time.*part.seconds);
      comma = ", ";
    }
    std::fprintf(file, "}}");
    separator = ",\n";
  }
  std::fprintf(file, "\n]\n");
}

}  // namespace
}  // namespace tessera::benchmarks

int main(int argc, char** argv) {
  using namespace tessera::benchmarks;
  const Options options = Parse(argc, argv);
  const std::vector<Row> rows = Measure(options);
  PrintTable(rows);
  if (options.at("json").empty()) return 0;
  std::FILE* const file = std::fopen(options.at("json").c_str(), "w");
  if (file == nullptr) {
    std::perror(options.at("json").c_str());
    return tessera::base::kExitWrongInput;
  }
  PrintJson(rows, file);
  std::fclose(file);
  return 0;
}
