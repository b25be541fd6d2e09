// Carries one kind of memory over a communicator of the other, by copies through a buffer:
//
// - device memory over a communicator of host memory: several ranks may share a GPU, and a GPU run
//   needs no communication library;
// - host memory over a communicator of device memory: what a run of one process a GPU tells of its
//   steps, without a second network.
//
// What the device has in its queue is waited for on the host whenever data leaves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"
#include "kernels/backend.h"

namespace tessera::engine {

enum class Staging { kDeviceOverHost, kHostOverDevice };

class StagedCommunicator final : public Communicator {
 public:
  // Both outlive the communicator. `backend` is the rank's device.
  StagedCommunicator(Staging staging, kernels::Backend& backend, Communicator& inner);
  ~StagedCommunicator() override;

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const std::string& name() const override { return inner_.name(); }

  void GroupStart() override;
  std::unique_ptr<CommHandle> GroupEndAsync() override;
  std::unique_ptr<Communicator> Split(int color, int key, const std::string& name) override;
  void Abort(const std::string& reason) override { inner_.Abort(reason); }
  void BeginStep(int64_t step) override { inner_.BeginStep(step); }
  double blocked_s() const override { return blocked_s_; }

 protected:
  std::unique_ptr<CommHandle> DoAllReduce(const void* input, void* output, int64_t count,
                                          base::DType dtype, base::ReduceOp op) override;
  std::unique_ptr<CommHandle> DoReduceScatter(const void* input, void* output, int64_t count,
                                              base::DType dtype, base::ReduceOp op) override;
  std::unique_ptr<CommHandle> DoAllGather(const void* input, void* output, int64_t count,
                                          base::DType dtype) override;
  void DoBroadcast(void* data, int64_t count, base::DType dtype, int root) override;
  void DoAllToAll(const void* input, void* output, int64_t count, base::DType dtype) override;
  void DoAllToAllV(const void* input, std::span<const int64_t> send_counts, void* output,
                   std::span<const int64_t> receive_counts, base::DType dtype) override;
  void DoBarrier() override;
  std::unique_ptr<CommHandle> DoSend(const void* data, int64_t count, base::DType dtype, int peer,
                                     int tag) override;
  std::unique_ptr<CommHandle> DoRecv(void* data, int64_t count, base::DType dtype, int peer,
                                     int tag) override;

 private:
  class Handle;
  // Memory of the inner communicator's kind.
  struct Block {
    std::unique_ptr<std::byte[]> host;
    std::byte* device = nullptr;
    int64_t num_bytes = 0;

    std::byte* data() const { return host ? host.get() : device; }
  };
  // What goes back to the caller's memory when an operation is done.
  struct Return {
    const std::byte* from = nullptr;
    void* to = nullptr;
    int64_t num_bytes = 0;
  };

  StagedCommunicator(Staging staging, kernels::Backend& backend,
                     std::unique_ptr<Communicator> inner);

  Block Take(int64_t num_bytes);
  void GiveBack(Block block);
  void Release(const Block& block);
  // The common case: `block` has the input, its part `back` becomes the output.
  std::unique_ptr<CommHandle> Finish(Block block, const Return& back,
                                     std::unique_ptr<CommHandle> inner);
  void CopyIn(std::byte* inner, const void* outer, int64_t num_bytes);
  void CopyOut(const Return& back);

  const Staging staging_;
  kernels::Backend& backend_;
  const std::unique_ptr<Communicator> owned_inner_;  // of a split
  Communicator& inner_;
  std::vector<Block> free_blocks_;  // kept for the next operations
  double blocked_s_ = 0;
  bool in_group_ = false;
  std::vector<Block> grouped_blocks_;
  std::vector<Return> grouped_returns_;
};

}  // namespace tessera::engine
