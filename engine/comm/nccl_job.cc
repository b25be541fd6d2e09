#include "engine/comm/nccl_job.h"

namespace tessera::engine {

void NcclJob::AddRank(int world_rank) {
  const std::lock_guard lock(mutex_);
  ranks_.insert(world_rank);
}

void NcclJob::Fail(int world_rank, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = Failure{world_rank, reason};
  }
  failed_.notify_all();
}

std::optional<NcclJob::Failure> NcclJob::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void NcclJob::Sleep(std::chrono::duration<double> time, const std::stop_token& stop) const {
  std::unique_lock lock(mutex_);
  failed_.wait_for(lock, stop, time, [&] { return failure_.has_value(); });
}

NcclJob::Counter& NcclJob::CounterOf(const std::string& group, int world_rank) {
  const std::lock_guard lock(mutex_);
  return num_posted_[{group, world_rank}];
}

std::vector<int> NcclJob::RanksBehind(const std::string& group, const std::vector<int>& world_ranks,
                                      int64_t number) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> behind;
  for (const int rank : world_ranks) {
    const auto count = num_posted_.find({group, rank});
    const bool has_posted = count != num_posted_.end() && count->second > number;
    if (ranks_.count(rank) > 0 && !has_posted) behind.push_back(rank);
  }
  return behind;
}

std::shared_ptr<NcclJob> ShareNcclJob(Communicator& host_world) {
  const auto own = std::make_shared<NcclJob>();
  const std::shared_ptr<NcclJob>* lent = &own;
  host_world.Broadcast(&lent, sizeof(lent), base::DType::kUInt8, /*root=*/0);
  std::shared_ptr<NcclJob> shared = *lent;
  host_world.Barrier();  // the lender's pointer stays until all have copied it
  return shared;
}

}  // namespace tessera::engine
