// The text form of a schedule, for golden tests and messages.
#include "cost_model/base/check.h"
#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {
namespace {

std::string_view Symbol(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "F";
    case ActionKind::kBackward:
      return "B";
    case ActionKind::kSendForward:
      return "SF";
    case ActionKind::kRecvForward:
      return "RF";
    case ActionKind::kSendBackward:
      return "SB";
    case ActionKind::kRecvBackward:
      return "RB";
    case ActionKind::kBackwardInput:
      return "I";
    case ActionKind::kBackwardWeight:
      return "W";
  }
  base::FailCheck(__FILE__, __LINE__, "known ActionKind", static_cast<int>(kind));
}

}  // namespace

std::string ToString(const Action& action) {
  return base::Concat(action.virtual_stage, Symbol(action.kind), action.microbatch);
}

std::string ToString(const std::vector<Action>& actions) {
  const auto same_exchange = [&](size_t i, size_t j) {
    return j < actions.size() && actions[i].exchange >= 0 &&
           actions[i].exchange == actions[j].exchange;
  };
  std::string text;
  bool in_bracket = false;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (i > 0) text += ' ';
    if (!in_bracket && same_exchange(i, i + 1)) {
      text += '[';
      in_bracket = true;
    }
    text += ToString(actions[i]);
    if (in_bracket && !same_exchange(i, i + 1)) {
      text += ']';
      in_bracket = false;
    }
  }
  return text;
}

}  // namespace tessera::spec
