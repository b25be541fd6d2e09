#include "engine/comm/nccl_job.h"

#include <unistd.h>

#include <array>

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

void NcclJob::Post(const std::string& group, int world_rank, int64_t number) {
  const std::lock_guard lock(mutex_);
  last_posted_[{group, world_rank}] = number;
}

std::vector<int> NcclJob::RanksBehind(const std::string& group, const std::vector<int>& world_ranks,
                                      int64_t number) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> behind;
  for (const int rank : world_ranks) {
    const auto last = last_posted_.find({group, rank});
    const bool has_posted = last != last_posted_.end() && last->second >= number;
    if (ranks_.count(rank) > 0 && !has_posted) behind.push_back(rank);
  }
  return behind;
}

std::shared_ptr<NcclJob> ShareNcclJob(Communicator& host_world) {
  // Host and process say who shares an address space; the first rank of each process lends its own.
  struct Offer {
    std::array<char, 256> host = {};
    int64_t process = 0;
    std::shared_ptr<NcclJob>* job = nullptr;
  };
  auto job = std::make_shared<NcclJob>();
  Offer mine = {.process = getpid(), .job = &job};
  gethostname(mine.host.data(), mine.host.size() - 1);
  std::vector<Offer> offers(static_cast<size_t>(host_world.size()));
  host_world.AllGather(&mine, offers.data(), sizeof(Offer), base::DType::kUInt8);
  std::shared_ptr<NcclJob> shared = job;
  for (const Offer& offer : offers) {
    if (offer.process != mine.process || offer.host != mine.host) continue;
    if (offer.job != &job) shared = *offer.job;
    break;
  }
  host_world.Barrier();  // the lender's pointer stays until all have copied it
  return shared;
}

}  // namespace tessera::engine
