#include "engine/train/metrics_json.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/spec/step_warnings_json.h"

namespace tessera::engine {
namespace {

using Json = nlohmann::ordered_json;

Json TimeJson(const spec::TimeBreakdown& time) {
  return {{"forward_s", time.forward_s}, {"backward_s", time.backward_s},
          {"tp_comm_s", time.tp_comm_s}, {"cp_comm_s", time.cp_comm_s},
          {"ep_comm_s", time.ep_comm_s}, {"pp_wait_s", time.bubble_s},
          {"dp_comm_s", time.dp_comm_s}, {"optimizer_s", time.optimizer_s},
          {"other_s", time.other_s}};
}

Json MemoryJson(const spec::StageMemory& memory) {
  return {{"weights_bytes", memory.weights_bytes},
          {"gradients_bytes", memory.gradients_bytes},
          {"optimizer_bytes", memory.optimizer_bytes},
          {"activations_bytes", memory.activations_bytes},
          {"buffers_bytes", memory.buffers_bytes}};
}

Json StragglerJson(const std::optional<Straggler>& straggler) {
  if (!straggler) return nullptr;
  return {{"rank", straggler->rank}, {"ratio", straggler->ratio()}};
}

Json StepJson(const spec::StepReport& report) { return Json::parse(spec::WriteStepReport(report)); }

}  // namespace

MetricsWriter::MetricsWriter(const std::string& path, bool append)
    : path_(path), appends_(append), file_(path, std::ios::app) {
  if (!file_) {
    throw base::SystemError(base::Concat("cannot open ", path, ": ", std::strerror(errno)));
  }
}

void MetricsWriter::KeepRowsBefore(int64_t step) {
  std::string kept;
  if (step > 0 && std::filesystem::is_regular_file(path_)) {
    std::ifstream earlier(path_);
    for (std::string line; std::getline(earlier, line) && !earlier.eof();) {
      const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      // Other lines are none of ours to judge.
      if (row.is_object() && row.contains("step") && row["step"] >= step) break;
      kept += line + '\n';
    }
  }
  file_ = std::ofstream(path_, std::ios::trunc);
  file_ << kept;
}

void MetricsWriter::Write(const StepRow& row) {
  if (!std::exchange(has_written_, true)) KeepRowsBefore(appends_ ? row.result.step : 0);
  Json json = {{"step", row.result.step},
               {"loss", row.result.loss},
               {"grad_norm", row.result.grad_norm},
               {"lr", row.result.lr},
               {"weight_decay", row.result.weight_decay},
               {"global_batch_size", row.result.batch_size},
               {"consumed_samples", row.result.consumed_samples},
               {"consumed_tokens", row.consumed_tokens},
               {"step_time_s", row.result.step_time_s},
               {"tokens_per_s", row.tokens_per_s},
               {"model_tflops_per_device", row.model_tflops_per_device},
               {"mfu", row.mfu}};
  json.update(TimeJson(row.result.time));
  if (row.has_experts) {
    json["balance_loss"] = row.result.balance_loss;
    json["router_z_loss"] = row.result.router_z_loss;
  }
  if (row.result.straggler) {
    json["previous_straggler_rank"] = row.result.straggler->rank;
    json["previous_straggler_ratio"] = row.result.straggler->ratio();
  }
  if (row.result.loss_scale > 0) json["loss_scale"] = row.result.loss_scale;
  if (row.result.loss_scale > 0 || row.result.skipped) json["skipped"] = row.result.skipped;
  if (!row.result.anomaly.empty()) json["anomaly"] = row.result.anomaly;
  if (row.validation_loss) {
    json["validation_loss"] = *row.validation_loss;
    json["validation_time_s"] = row.validation_time_s;
  }
  file_ << json.dump() << std::endl;  // flushed: a reader follows the run
  if (!file_) {
    throw base::SystemError(
        base::Concat("cannot write a row to ", path_, ": ", std::strerror(errno)));
  }
}

std::string WriteTrainReport(const TrainReport& report,
                             const std::optional<spec::StepReport>& prediction) {
  Json ranks = Json::array();
  for (const RankReport& rank : report.ranks) {
    ranks.push_back({{"pipeline", rank.coord.pipeline},
                     {"data", rank.coord.data},
                     {"context", rank.coord.context},
                     {"tensor", rank.coord.tensor},
                     {"time", TimeJson(rank.time)},
                     {"memory", MemoryJson(rank.memory)},
                     {"beyond_arena_bytes", rank.beyond_arena_bytes}});
  }
  const Json json = {{"first_step", report.first_step},
                     {"last_step", report.last_step},
                     {"interrupted", report.interrupted},
                     {"first_loss", report.first_loss},
                     {"last_loss", report.last_loss},
                     {"last_validation_loss",
                      report.last_validation_loss ? Json(*report.last_validation_loss) : Json()},
                     {"num_skipped_steps", report.num_skipped_steps},
                     {"straggler", StragglerJson(report.straggler)},
                     {"num_measured_steps", report.num_measured_steps},
                     {"predicted", prediction ? StepJson(*prediction) : Json()},
                     {"measured", StepJson(report.measured)},
                     {"ranks", ranks},
                     {"warnings", spec::StepWarningsToJson(report.warnings)},
                     {"checkpoint", report.saved_checkpoint}};
  return json.dump(2);
}

}  // namespace tessera::engine
