#include "planner/validation/measured_choices.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "cost_model/base/check.h"
#include "cost_model/spec/stage_partition.h"
#include "planner/search_space.h"
#include "planner/validation/text_search.h"

namespace tessera::planner {
namespace {

using base::Concat;
using spec::ParallelSpec;

// Chunks of a stage; one stage alone is not split.
int64_t VirtualPipelineSize(const MeasuredLayout& row) {
  return row.pipeline_parallel_size > 1 ? row.virtual_pipeline_size.value_or(1) : 1;
}

// Sets the chunks of a stage and, where the model leaves just the room for it, the layers of each:
// 126 layers on 128 places, where embedding and head take the place of a layer.
void SetChunks(const spec::ModelSpec& model, int num_chunks, ParallelSpec& parallel) {
  parallel.virtual_pipeline_size = num_chunks;
  if (num_chunks > 1) parallel.schedule = spec::ScheduleKind::kInterleaved;
  parallel.layers_per_virtual_stage.clear();
  const int num_stages = parallel.pipeline_parallel_size * num_chunks;
  if (num_stages < 2 || model.num_layers % num_stages == 0 ||
      (model.num_layers + 2) % num_stages != 0) {
    return;
  }
  parallel.layers_per_virtual_stage.assign(num_stages, (model.num_layers + 2) / num_stages);
  --parallel.layers_per_virtual_stage.front();
  --parallel.layers_per_virtual_stage.back();
}

// Recomputes a share of the layers of every pipeline stage, rounded up, spread over its chunks.
void RecomputeShare(const spec::ModelSpec& model, double share, ParallelSpec& parallel) {
  parallel.recompute = spec::Recompute::kFull;
  parallel.recomputed_layers_per_virtual_stage.clear();
  const int num_stages = parallel.pipeline_parallel_size * parallel.virtual_pipeline_size;
  if (model.num_layers < num_stages) return;  // FindViolations says so
  std::vector<int> num_layers(parallel.pipeline_parallel_size);
  std::vector<int> num_recomputed(parallel.pipeline_parallel_size);
  for (const spec::VirtualStage& stage : spec::PartitionStages(model, parallel)) {
    num_layers[stage.pipeline_stage] += stage.num_layers;
    int& so_far = num_recomputed[stage.pipeline_stage];
    const int recomputed =
        static_cast<int>(std::ceil(share * num_layers[stage.pipeline_stage])) - so_far;
    so_far += recomputed;
    parallel.recomputed_layers_per_virtual_stage.push_back(recomputed);
  }
}

// "selective-layer" is every second layer whole; what "selective" keeps is the runtime's.
void FillRecompute(const MeasuredLayout& row, const spec::ModelSpec& model,
                   ParallelSpec& parallel) {
  if (Contains(row.recompute, "selective-layer")) {
    RecomputeShare(model, 0.5, parallel);
    return;
  }
  parallel.recompute = Contains(row.recompute, "selective") ? spec::Recompute::kSelective
                       : Contains(row.recompute, "full")    ? spec::Recompute::kFull
                                                            : spec::Recompute::kNone;
}

// Every choice with every value of one more field.
template <typename T>
void Multiply(std::vector<LayoutChoice>& choices, const std::vector<T>& values,
              const std::function<std::string(const T&)>& name,
              const std::function<void(ParallelSpec&, const T&)>& set) {
  std::vector<LayoutChoice> product;
  for (const LayoutChoice& choice : choices) {
    for (const T& value : values) {
      product.push_back(choice);
      set(product.back().parallel, value);
      product.back().assumed.push_back(name(value));
    }
  }
  choices = std::move(product);
}

// A row that runs an interleaved schedule, or says that it might, without the number of chunks.
bool LeavesChunksOpen(const Measurement& measurement) {
  const MeasuredLayout& row = measurement.layout;
  if (row.virtual_pipeline_size || row.pipeline_parallel_size == 1) return false;
  return Contains(row.schedule, "interleaved") || Contains(measurement.notes, "vpp");
}

void ChooseChunks(const Measurement& measurement, const spec::ModelSpec& model,
                  std::vector<LayoutChoice>& choices) {
  const MeasuredLayout& row = measurement.layout;
  if (!LeavesChunksOpen(measurement)) {
    SetChunks(model, static_cast<int>(VirtualPipelineSize(row)), choices.front().parallel);
    return;
  }
  const auto num_stages = static_cast<int>(row.pipeline_parallel_size);
  const int most_layers = std::max(1, (model.num_layers + num_stages - 1) / num_stages);
  std::vector<int> values;
  for (const int64_t divisor : DivisorsOf(most_layers)) {
    if (divisor > 1 || !Contains(row.schedule, "interleaved")) {
      values.push_back(static_cast<int>(divisor));
    }
  }
  if (values.empty()) values.push_back(1);
  Multiply<int>(
      choices, values, [](const int& value) { return Concat("vpp ", value); },
      [&model](ParallelSpec& parallel, const int& value) { SetChunks(model, value, parallel); });
}

void ChooseRecompute(const MeasuredLayout& row, const spec::ModelSpec& model,
                     std::vector<LayoutChoice>& choices) {
  if (!row.recompute.empty()) {
    for (LayoutChoice& choice : choices) FillRecompute(row, model, choice.parallel);
    return;
  }
  struct Value {
    const char* name;
    std::function<void(ParallelSpec&)> set;
  };
  const auto share = [&model](double of_layers) {
    return
        [&model, of_layers](ParallelSpec& parallel) { RecomputeShare(model, of_layers, parallel); };
  };
  const auto whole = [](spec::Recompute recompute) {
    return [recompute](ParallelSpec& parallel) { parallel.recompute = recompute; };
  };
  std::vector<Value> values = {{"none", whole(spec::Recompute::kNone)},
                               {"full of an eighth of the layers", share(0.125)},
                               {"full of a quarter of the layers", share(0.25)},
                               {"full of half of the layers", share(0.5)},
                               {"full", whole(spec::Recompute::kFull)}};
  if (choices.front().parallel.attention == spec::AttentionKind::kUnfused) {
    values.push_back({"selective", whole(spec::Recompute::kSelective)});
  }
  Multiply<Value>(
      choices, values, [](const Value& value) { return Concat("recompute ", value.name); },
      [](ParallelSpec& parallel, const Value& value) { value.set(parallel); });
}

void ChooseMicroBatch(const MeasuredLayout& row, std::vector<LayoutChoice>& choices) {
  if (row.micro_batch_size) return;
  const int64_t per_replica = *row.global_batch_size / choices.front().parallel.data_parallel_size;
  Multiply<int64_t>(
      choices, DivisorsOf(std::max<int64_t>(1, per_replica)),
      [](const int64_t& value) { return Concat("micro_batch_size ", value); },
      [](ParallelSpec& parallel, const int64_t& value) { parallel.micro_batch_size = value; });
}

void ChooseZero(const MeasuredLayout& row, std::vector<LayoutChoice>& choices) {
  if (row.zero_stage) return;
  Multiply<int>(
      choices, {0, 1}, [](const int& value) { return Concat("zero_stage ", value); },
      [](ParallelSpec& parallel, const int& value) { parallel.zero_stage = value; });
}

}  // namespace

std::vector<LayoutChoice> ChoicesOf(const Measurement& measurement, const spec::ModelSpec& model,
                                    const spec::ParallelSpec& known) {
  const MeasuredLayout& row = measurement.layout;
  std::vector<LayoutChoice> choices = {{known, {}}};
  choices.front().parallel.micro_batch_size = row.micro_batch_size.value_or(1);
  choices.front().parallel.zero_stage = static_cast<int>(row.zero_stage.value_or(0));
  ChooseChunks(measurement, model, choices);
  ChooseRecompute(row, model, choices);
  ChooseMicroBatch(row, choices);
  ChooseZero(row, choices);
  return choices;
}

}  // namespace tessera::planner
