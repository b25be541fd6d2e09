#include "engine/cli/train_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/cli/text_rows.h"

namespace tessera::engine {
namespace {

constexpr double kBytesPerMib = 1024.0 * 1024.0;

std::string Duration(double seconds) {
  const auto total = static_cast<int64_t>(seconds + 0.5);
  if (total < 60) return Format("%lds", total);
  if (total < 3600) return Format("%ldm %02lds", total / 60, total % 60);
  return Format("%ldh %02ldm", total / 3600, total / 60 % 60);
}

// "measured / predicted - 1"; "-" where there is nothing to compare with.
std::string Deviation(double predicted, double measured) {
  if (predicted <= 0) return "-";
  return Format("%+.1f %%", 100 * (measured / predicted - 1));
}

// A part's difference as a share of the whole step: parts that are small either way stay so.
std::string ShareOfStep(double predicted_s, double measured_s, double predicted_step_s) {
  if (predicted_step_s <= 0) return "-";
  return Format("%+.1f %% of step", 100 * (measured_s - predicted_s) / predicted_step_s);
}

void PrintRow(std::ostream& out, const char* name, double predicted, double measured, double unit,
              const char* unit_name, const std::string& difference) {
  out << Format("  %-22s %12.2f %12.2f %-4s %10s\n", name, predicted / unit, measured / unit,
                unit_name, difference.c_str());
}

void PrintTimes(const spec::StepReport& predicted, const spec::StepReport& measured,
                std::ostream& out) {
  const auto row = [&](const char* name, double predicted_s, double measured_s) {
    if (predicted_s == 0 && measured_s == 0) return;
    PrintRow(out, name, predicted_s, measured_s, 1 / kMsPerSecond, "ms",
             ShareOfStep(predicted_s, measured_s, predicted.step_time_s));
  };
  const spec::TimeBreakdown& p = predicted.time;
  const spec::TimeBreakdown& m = measured.time;
  PrintRow(out, "step", predicted.step_time_s, measured.step_time_s, 1 / kMsPerSecond, "ms",
           Deviation(predicted.step_time_s, measured.step_time_s));
  row("  forward", p.forward_s, m.forward_s);
  row("  backward", p.backward_s + p.recompute_s, m.backward_s + m.recompute_s);
  row("  tensor comm.", p.tp_comm_s, m.tp_comm_s);
  row("  context comm.", p.cp_comm_s, m.cp_comm_s);
  row("  expert comm.", p.ep_comm_s, m.ep_comm_s);
  row("  pipeline wait", p.pp_comm_s + p.bubble_s, m.pp_comm_s + m.bubble_s);
  row("  data comm.", p.dp_comm_s, m.dp_comm_s);
  row("  optimizer", p.optimizer_s, m.optimizer_s);
  row("  other", p.other_s, m.other_s);
}

void PrintMemory(const spec::StepReport& predicted, const spec::StepReport& measured,
                 std::ostream& out) {
  for (size_t i = 0; i < measured.stages.size(); ++i) {
    const spec::StageMemory p =
        i < predicted.stages.size() ? predicted.stages[i] : spec::StageMemory{};
    const spec::StageMemory& m = measured.stages[i];
    const auto row = [&](const char* name, int64_t predicted_bytes, int64_t measured_bytes) {
      const auto p_bytes = static_cast<double>(predicted_bytes);
      const auto m_bytes = static_cast<double>(measured_bytes);
      PrintRow(out, name, p_bytes, m_bytes, kBytesPerMib, "MiB", Deviation(p_bytes, m_bytes));
    };
    row(Format("stage %zu, a rank", i).c_str(), p.Total(), m.Total());
    row("  weights", p.weights_bytes, m.weights_bytes);
    row("  gradients", p.gradients_bytes, m.gradients_bytes);
    row("  optimizer state", p.optimizer_bytes, m.optimizer_bytes);
    row("  activations (peak)", p.activations_bytes, m.activations_bytes);
    row("  buffers (peak)", p.buffers_bytes, m.buffers_bytes);
  }
}

void PrintRanks(const std::vector<RankReport>& ranks, std::ostream& out) {
  out << "\n  rank  pp dp cp tp   forward  backward   tensor  context   expert  pipeline      data"
         "  optimizer    other     memory\n";
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankReport& rank = ranks[i];
    const spec::TimeBreakdown& time = rank.time;
    out << Format(
        "  %4zu  %2d %2d %2d %2d  %8.1f  %8.1f %8.1f %8.1f %8.1f  %8.1f  %8.1f   %8.1f %8.1f ms "
        "%6.1f MiB\n",
        i, rank.coord.pipeline, rank.coord.data, rank.coord.context, rank.coord.tensor,
        time.forward_s * kMsPerSecond, time.backward_s * kMsPerSecond,
        time.tp_comm_s * kMsPerSecond, time.cp_comm_s * kMsPerSecond, time.ep_comm_s * kMsPerSecond,
        time.bubble_s * kMsPerSecond, time.dp_comm_s * kMsPerSecond,
        time.optimizer_s * kMsPerSecond, time.other_s * kMsPerSecond,
        static_cast<double>(rank.memory.Total()) / kBytesPerMib);
  }
}

}  // namespace

void PrintStep(const StepRow& row, double elapsed_s, int64_t first_step, std::ostream& out) {
  const StepResult& result = row.result;
  const double per_step_s = elapsed_s / static_cast<double>(result.step - first_step);
  const double left_s = per_step_s * static_cast<double>(row.total_steps - result.step);
  out << Format("step %6ld/%ld | loss %8.4f | lr %.3e | grad norm %8.4f | %9.0f tok/s", result.step,
                row.total_steps, result.loss, result.lr, result.grad_norm, row.tokens_per_s);
  if (row.mfu > 0) out << Format(" | MFU %4.1f %%", 100 * row.mfu);
  if (row.validation_loss) out << Format(" | validation loss %8.4f", *row.validation_loss);
  if (!result.anomaly.empty()) {
    out << " | skipped: " << result.anomaly;
  } else if (result.skipped) {
    out << Format(" | skipped, loss scale %.0f is too large", result.loss_scale);
  }
  out << " | ETA " << Duration(left_s) << '\n' << std::flush;
}

void PrintReport(const TrainReport& report, const std::optional<spec::StepReport>& prediction,
                 std::ostream& out) {
  if (report.ranks.empty()) {
    out << "Nothing to do: the run stands at step " << report.last_step << " already.\n";
    return;
  }
  out << Format("\nSteps %ld to %ld%s: loss %.4f -> %.4f, %.0f tokens/s, MFU %.1f %%\n",
                report.first_step + 1, report.last_step, report.interrupted ? " (stopped)" : "",
                report.first_loss, report.last_loss, report.measured.tokens_per_s,
                100 * report.measured.mfu);
  if (report.last_validation_loss) {
    out << Format("Validation loss: %.4f\n", *report.last_validation_loss);
  }
  if (report.num_skipped_steps > 0) {
    out << "Skipped steps: " << report.num_skipped_steps << '\n';
  }
  out << Format("\n  %-22s %12s %12s %-4s %10s\n", "", "predicted", "measured", "", "difference");
  const spec::StepReport predicted = prediction.value_or(spec::StepReport{});
  PrintTimes(predicted, report.measured, out);
  PrintMemory(predicted, report.measured, out);
  PrintRanks(report.ranks, out);
  if (report.straggler) {
    out << Format("\nSlowest rank: %d, which computes %.2f x as long as the others of its stage.\n",
                  report.straggler->rank, report.straggler->ratio());
  }
  int64_t beyond_bytes = 0;
  for (const RankReport& rank : report.ranks) {
    beyond_bytes = std::max(beyond_bytes, rank.beyond_arena_bytes);
  }
  if (beyond_bytes > 0) {
    out << Format("\nDevice memory of a rank: %.1f MiB beyond the arena that the plan predicted.\n",
                  static_cast<double>(beyond_bytes) / kBytesPerMib);
  }
  out << Format(
      "\nStep time: median of %ld steps; its parts: means of the rank that computes longest.\n",
      report.num_measured_steps);
}

}  // namespace tessera::engine
