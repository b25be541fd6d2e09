#include "tests/testing/layout_cover.h"

#include <algorithm>

#include "cost_model/base/error.h"
#include "engine/train/engine_limits.h"
#include "tests/testing/cover_axes.h"

namespace tessera::testing {
namespace {

constexpr int kMostRanks = 16;

// Choices that would change nothing.
int NumIdleChoices(const CoverDraft& draft) {
  const spec::ParallelSpec& parallel = draft.plan.parallel;
  const bool has_tensor = parallel.tensor_parallel_size > 1;
  const bool has_stages = parallel.pipeline_parallel_size > 1;
  const int gradient_ranks = spec::GradientGroupSize(parallel);
  const bool is_sharded = parallel.zero_stage > 0;
  int num_idle = 0;
  const auto needs = [&](bool is_chosen, bool has_effect) {
    num_idle += is_chosen && !has_effect ? 1 : 0;
  };
  needs(parallel.sequence_parallel, has_tensor);
  needs(parallel.overlap_tp_comm, has_tensor);
  needs(parallel.expert_tensor_parallel_size == 1, has_tensor && draft.plan.model.moe.has_value());
  needs(parallel.overlap_pp_comm, has_stages);
  needs(parallel.scatter_gather_transfers, has_tensor && has_stages && !parallel.sequence_parallel);
  needs(draft.is_uneven, has_stages);
  needs(is_sharded, gradient_ranks > 1);
  needs(draft.is_hybrid, is_sharded && gradient_ranks >= 4);
  needs(parallel.overlap_grad_reduce, gradient_ranks > 1);
  needs(parallel.overlap_param_gather,
        gradient_ranks > 1 && (parallel.zero_stage == 1 || parallel.zero_stage == 2));
  return num_idle;
}

int NumBrokenRules(const CoverDraft& draft) {
  const spec::Plan& plan = draft.plan;
  return NumIdleChoices(draft) + (plan.num_devices > kMostRanks ? 1 : 0) +
         static_cast<int>(
             FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).size());
}

// Reasons for which the engine refuses the plan; its message joins them by "; ".
int NumRefusals(const spec::Plan& plan) {
  try {
    engine::CheckExecutable(plan);
    return 0;
  } catch (const base::InfeasibleError& error) {
    const std::string message = error.what();
    int num_reasons = 1;
    for (size_t at = message.find("; "); at != std::string::npos; at = message.find("; ", at + 1)) {
      ++num_reasons;
    }
    return num_reasons;
  }
}

CoverTraining MakeCoverTraining(const CoverRow& choices) {
  CoverTraining training{.choices = choices, .plan = DraftOf(choices).plan};
  for (size_t axis = 0; axis < choices.size(); ++axis) {
    const auto value = static_cast<size_t>(choices[axis]);
    if (value == 0) continue;
    if (!training.name.empty()) training.name += ' ';
    training.name += CoverAxes()[axis].name + "=" + CoverAxes()[axis].values[value].name;
  }
  return training;
}

LayoutCover MakeCover() {
  constexpr uint32_t kSeed = 1;
  std::vector<int> num_values;
  for (const CoverAxis& axis : CoverAxes()) {
    num_values.push_back(static_cast<int>(axis.values.size()));
  }
  const auto broken_rules = [](const CoverRow& row) { return NumBrokenRules(DraftOf(row)); };
  const auto conflicts = [](const CoverRow& row) {
    const CoverDraft draft = DraftOf(row);
    return NumBrokenRules(draft) + NumRefusals(draft.plan);
  };
  const PairwiseCover executed = MakePairwiseCover(num_values, conflicts, kSeed);
  LayoutCover cover;
  // Of what is not executed, what could be planned.
  cover.forbidden = CoverPairs(executed.impossible, num_values, broken_rules, kSeed).impossible;
  for (const ValuePair& pair : executed.impossible) {
    const auto& forbidden = cover.forbidden;
    const bool is_forbidden =
        std::find(forbidden.begin(), forbidden.end(), pair) != forbidden.end();
    if (!is_forbidden) cover.refused.push_back(pair);
  }
  for (const CoverRow& row : executed.rows) cover.trainings.push_back(MakeCoverTraining(row));
  return cover;
}

}  // namespace

const LayoutCover& CoverOfLayouts() {
  static const LayoutCover cover = MakeCover();
  return cover;
}

std::string ToString(const ValuePair& pair) {
  const auto text = [](int axis, int value) {
    return CoverAxes()[axis].name + "=" + CoverAxes()[axis].values[value].name;
  };
  return text(pair.first_factor, pair.first_value) + " with " +
         text(pair.second_factor, pair.second_value);
}

}  // namespace tessera::testing
