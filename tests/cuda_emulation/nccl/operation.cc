#include "tests/cuda_emulation/nccl/operation.h"

#include <set>

#include "tests/cuda_emulation/nccl/settings.h"
#include "tests/cuda_emulation/runtime/fault.h"

namespace tessera::cuda_emulation::nccl {

std::optional<std::string> NcclOperation::Issue() {
  const std::lock_guard lock(rank_->clique->mutex());
  number_ = rank_->num_issued++;
  for (const NcclCall& call : calls_) places_.push_back(rank_->clique->Issue(*rank_, call));
  return rank_->clique->failure();
}

void NcclOperation::HoldCommunicator() {
  const std::lock_guard lock(rank_->clique->mutex());
  holds_communicator_ = true;
  ++rank_->num_in_graphs;
}

NcclOperation::~NcclOperation() {
  if (!holds_communicator_) return;
  const std::lock_guard lock(rank_->clique->mutex());
  --rank_->num_in_graphs;
  rank_->clique->condition().notify_all();
}

bool NcclOperation::TryRun() {
  Clique& clique = *rank_->clique;
  bool is_done = true;
  bool has_run = false;
  {
    const std::lock_guard lock(clique.mutex());
    if (rank_->is_aborted) return true;  // the kernel of an aborted communicator gives up
    if (clique.failure()) throw Fault(*clique.failure());
    if (rank_->num_completed != number_) return false;
    if (FindNcclFailure(clique.name(), rank_->rank, number_)) return false;
    for (const Place& place : places_) is_done &= clique.Arrive(place, &has_run);
    if (is_done) ++rank_->num_completed;
  }
  if (is_done || has_run) NotifyProgress();
  return is_done;
}

std::string NcclOperation::Describe() const {
  const std::lock_guard lock(rank_->clique->mutex());
  std::string text = "operation " + std::to_string(number_) + " of rank " +
                     std::to_string(rank_->rank) + " in communicator '" + rank_->clique->name() +
                     "' (";
  for (size_t i = 0; i < calls_.size(); ++i) {
    text += (i == 0 ? "" : ", ") + nccl::Describe(calls_[i]);
  }
  return text + ")" + DescribeMissing();
}

std::string NcclOperation::DescribeMissing() const {
  if (number_ < 0) return ", captured";
  if (FindNcclFailure(rank_->clique->name(), rank_->rank, number_)) {
    return ", which a test has made fail";
  }
  if (rank_->num_completed != number_) {
    return ", waits for this rank's operation " + std::to_string(rank_->num_completed);
  }
  std::set<int> missing;
  for (const Place& place : places_) {
    for (const Meeting::Participant& participant : place.meeting->participants) {
      if (!participant.has_arrived) missing.insert(participant.rank);
    }
  }
  if (missing.empty()) return ", ready to run";
  std::string text;
  for (const int rank : missing) {
    text += (text.empty() ? ", waits for " : ", ") + rank_->clique->DescribeRank(rank);
  }
  return text;
}

std::unique_ptr<StreamOperation> NcclOperation::Clone() const {
  auto clone = std::make_unique<NcclOperation>(rank_, calls_);
  if (const auto failure = clone->Issue()) throw Fault(*failure);
  return clone;
}

}  // namespace tessera::cuda_emulation::nccl
