#include "engine/comm/rank_activity.h"

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

// Makes `op` the next of its kind.
void Follow(CommOp& last, CommOp& op) {
  op.number = last.number + 1;
  last = op;
}

std::map<int, MessageProgress> ProgressOf(const std::map<int, CommOp>& last) {
  std::map<int, MessageProgress> progress;
  for (const auto& [peer, op] : last) {
    progress[peer] = {.num = op.number, .last = base::Concat(ShapeOf(op), " with tag ", op.tag)};
  }
  return progress;
}

}  // namespace

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
      op.number = record.collectives.empty() ? 1 : record.collectives.back().number + 1;
      record.collectives.push_back(op);
      if (record.collectives.size() > GroupProgress::kNumLast) record.collectives.pop_front();
      break;
    case CommOp::Kind::kSend:
      Follow(record.sent[op.peer], op);
      break;
    case CommOp::Kind::kReceive:
      Follow(record.received[op.peer], op);
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
    for (const CommOp& op : group.collectives) {
      copy.num_collectives = op.number;
      copy.last_collectives.push_back(ShapeOf(op));
    }
    copy.sent = ProgressOf(group.sent);
    copy.received = ProgressOf(group.received);
  }
  return progress;
}

bool RankActivity::WriteFlightRecord(const std::string& path, int rank,
                                     const std::string& reason) const {
  const std::lock_guard lock(mutex_);
  return recorder_.Write(path, rank, reason);
}

std::string RecordFailure(const RankActivity& activity, const std::string& folder, int rank,
                          const std::string& reason) {
  if (folder.empty()) return "";
  const std::string path = FlightRecordPath(folder, rank);
  const bool is_written = activity.WriteFlightRecord(path, rank, reason);
  return base::Concat(is_written ? " (last operations: " : " (cannot write ", path, ')');
}

}  // namespace tessera::engine
