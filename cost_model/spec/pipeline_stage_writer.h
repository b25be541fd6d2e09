// What the generators of pipeline schedules write with.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {

// Writes the actions of one stage in order. Transfers over the pipeline's ends do not exist and are
// left out, so the generators need not mind which stage they write.
class StageWriter {
 public:
  StageWriter(int num_stages, int num_virtual_stages)
      : has_transfers_(num_stages > 1), last_virtual_stage_(num_virtual_stages - 1) {}

  void Add(Action action) {
    if (IsTransfer(action.kind)) {
      if (!Exists(action)) return;
      action.exchange = exchange_;
    }
    actions_.push_back(action);
  }

  // The transfers added from here on are posted together and completed together.
  void BeginExchange() { ++exchange_; }

  void Exchange(std::initializer_list<Action> transfers) {
    BeginExchange();
    for (const Action& transfer : transfers) Add(transfer);
  }

  std::vector<Action> Take() { return std::move(actions_); }

 private:
  bool Exists(const Action& transfer) const {
    const bool with_next =
        transfer.kind == ActionKind::kSendForward || transfer.kind == ActionKind::kRecvBackward;
    return has_transfers_ &&
           (with_next ? transfer.virtual_stage < last_virtual_stage_ : transfer.virtual_stage > 0);
  }

  bool has_transfers_;
  int last_virtual_stage_;
  int exchange_ = -1;
  std::vector<Action> actions_;
};

inline void CheckScheduleShape(std::string_view name, int num_stages, int num_microbatches) {
  if (num_stages < 1 || num_microbatches < 1) {
    throw base::ConfigError(
        "schedule", std::string(name),
        base::Concat(num_stages, " stages and ", num_microbatches, " micro-batches"),
        "at least one of each");
  }
}

}  // namespace tessera::spec
