// One rank's end of a group of the `gloo` backend. A blocking send returns when its receive has
// been posted and the data is on its way.
#pragma once

#include <memory>
#include <string>

#include "engine/comm/gloo_group.h"
#include "engine/comm/host_communicator.h"

namespace tessera::engine {

class GlooCommunicator final : public HostCommunicator {
 public:
  // `world`: of the group of all ranks, with which it goes.
  explicit GlooCommunicator(std::unique_ptr<GlooGroup> group,
                            std::unique_ptr<GlooWorld> world = nullptr);
  // Of all ranks: waits for the others to come here too, unless the run has failed.
  ~GlooCommunicator() override;

  int rank() const override { return group_->info().rank; }
  int size() const override { return group_->size(); }
  const std::string& name() const override { return group_->info().name; }

  std::unique_ptr<Communicator> Split(int color, int key, const std::string& name) override;
  void Abort(const std::string& reason) override;

 protected:
  std::unique_ptr<CommHandle> PostCollective(const Call& call) override;
  std::unique_ptr<CommHandle> PostMessage(const Call& call) override;
  int world_rank(int rank) const override { return group_->world_rank(rank); }

 private:
  class CollectiveHandle;
  class MessageHandle;

  const std::unique_ptr<GlooWorld> world_;  // of all ranks; null for a split
  std::unique_ptr<GlooGroup> group_;
  int64_t num_splits_ = 0;
};

}  // namespace tessera::engine
