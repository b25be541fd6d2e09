// The NCCL calls of one group, on one communicator and stream, as an operation of the stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_emulation/nccl/clique.h"
#include "tests/cuda_emulation/runtime/stream_queue.h"

namespace tessera::cuda_emulation::nccl {

class NcclOperation final : public StreamOperation {
 public:
  NcclOperation(std::shared_ptr<RankState> rank, std::vector<NcclCall> calls)
      : rank_(std::move(rank)), calls_(std::move(calls)) {}

  // Enters the calls into their meetings: in the order of issue, so before the stream has it; not
  // for an operation that is captured, whose replays issue themselves. Returns what makes the
  // communicator fail, if it does.
  std::optional<std::string> Issue();
  // It is captured: as long as it lives, so does the communicator.
  void HoldCommunicator();
  ~NcclOperation() override;

  bool TryRun() override;
  std::string Describe() const override;
  std::unique_ptr<StreamOperation> Clone() const override;

 private:
  std::string DescribeMissing() const;

  const std::shared_ptr<RankState> rank_;
  const std::vector<NcclCall> calls_;
  int64_t number_ = -1;  // among the rank's operations
  bool holds_communicator_ = false;
  std::vector<Place> places_;
};

}  // namespace tessera::cuda_emulation::nccl
