#include "engine/comm/rank_activity.h"

namespace tessera::engine {

int RankActivity::AddGroup(const std::string& id, const std::string& name) {
  const std::lock_guard lock(mutex_);
  groups_.push_back({.id = id, .name = name});
  return static_cast<int>(groups_.size()) - 1;
}

int64_t RankActivity::Begin(int group, CommOp& op) {
  const std::lock_guard lock(mutex_);
  Group& record = groups_.at(static_cast<size_t>(group));
  switch (op.kind) {
    case CommOp::Kind::kCollective:
      op.number = ++record.progress.num_collectives;
      record.last_collective = op;
      break;
    case CommOp::Kind::kSend:
      op.number = ++record.progress.num_sent[op.peer];
      break;
    case CommOp::Kind::kReceive:
      op.number = ++record.progress.num_received[op.peer];
      break;
  }
  return recorder_.Begin(step_, record.name, op);
}

void RankActivity::End(int64_t entry) {
  const std::lock_guard lock(mutex_);
  recorder_.End(entry);
}

void RankActivity::set_step(int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

int64_t RankActivity::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

RankProgress RankActivity::Progress() const {
  const std::lock_guard lock(mutex_);
  RankProgress progress;
  for (const Group& group : groups_) {
    GroupProgress& copy = progress.groups[group.id];
    copy = group.progress;
    if (copy.num_collectives > 0) copy.last_collective = ShapeOf(group.last_collective);
  }
  return progress;
}

bool RankActivity::WriteFlightRecord(const std::string& path, int rank,
                                     const std::string& reason) const {
  const std::lock_guard lock(mutex_);
  return recorder_.Write(path, rank, reason);
}

}  // namespace tessera::engine
