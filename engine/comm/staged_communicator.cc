#include "engine/comm/staged_communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/comm/blocked_timer.h"

namespace tessera::engine {

using base::DType;
using base::ReduceOp;

// One operation of the inner communicator, or a group of messages, on blocks that are free again
// when it is done, or given up.
class StagedCommunicator::Handle final : public CommHandle {
 public:
  Handle(StagedCommunicator& comm, std::vector<Block> blocks, std::vector<Return> backs,
         std::unique_ptr<CommHandle> inner)
      : comm_(comm),
        blocks_(std::move(blocks)),
        backs_(std::move(backs)),
        inner_(std::move(inner)) {}
  ~Handle() override {
    inner_.reset();
    for (Block& block : blocks_) comm_.GiveBack(std::move(block));
  }
  void Wait() override {
    if (std::exchange(waited_, true)) return;
    const BlockedTimer timer(comm_.blocked_s_);
    if (inner_) inner_->Wait();
    for (const Return& back : backs_) comm_.CopyOut(back);
  }

 private:
  StagedCommunicator& comm_;
  std::vector<Block> blocks_;
  const std::vector<Return> backs_;
  std::unique_ptr<CommHandle> inner_;
  bool waited_ = false;
};

StagedCommunicator::StagedCommunicator(Staging staging, kernels::Backend& backend,
                                       Communicator& inner)
    : staging_(staging), backend_(backend), inner_(inner) {}

StagedCommunicator::StagedCommunicator(Staging staging, kernels::Backend& backend,
                                       std::unique_ptr<Communicator> inner)
    : staging_(staging), backend_(backend), owned_inner_(std::move(inner)), inner_(*owned_inner_) {}

StagedCommunicator::~StagedCommunicator() {
  for (const Block& block : free_blocks_) Release(block);
}

void StagedCommunicator::Release(const Block& block) {
  if (block.device == nullptr) return;
  backend_.Free(block.device, static_cast<size_t>(block.num_bytes));
}

StagedCommunicator::Block StagedCommunicator::Take(int64_t num_bytes) {
  const auto fits = std::find_if(free_blocks_.begin(), free_blocks_.end(),
                                 [&](const Block& block) { return block.num_bytes >= num_bytes; });
  if (fits != free_blocks_.end()) {
    Block block = std::move(*fits);
    free_blocks_.erase(fits);
    return block;
  }
  // One that is too small goes, so that growing messages do not pile up memory.
  if (!free_blocks_.empty()) {
    Release(free_blocks_.back());
    free_blocks_.pop_back();
  }
  Block block = {.num_bytes = num_bytes};
  const auto size = static_cast<size_t>(num_bytes);
  if (staging_ == Staging::kHostOverDevice) {
    block.device = static_cast<std::byte*>(backend_.Allocate(size));
  } else {
    block.host = std::make_unique_for_overwrite<std::byte[]>(size);
  }
  return block;
}

void StagedCommunicator::GiveBack(Block block) {
  if (block.data() != nullptr) free_blocks_.push_back(std::move(block));
}

void StagedCommunicator::CopyIn(std::byte* inner, const void* outer, int64_t num_bytes) {
  const auto size = static_cast<size_t>(num_bytes);
  if (staging_ == Staging::kHostOverDevice) {
    backend_.CopyToDevice(inner, outer, size);
  } else {
    backend_.CopyToHost(inner, outer, size);
  }
}

void StagedCommunicator::CopyOut(const Return& back) {
  if (back.num_bytes == 0) return;
  const auto size = static_cast<size_t>(back.num_bytes);
  if (staging_ == Staging::kHostOverDevice) {
    backend_.CopyToHost(back.to, back.from, size);
  } else {
    backend_.CopyToDevice(back.to, back.from, size);
  }
}

std::unique_ptr<CommHandle> StagedCommunicator::Finish(Block block, const Return& back,
                                                       std::unique_ptr<CommHandle> inner) {
  std::vector<Block> blocks;
  blocks.push_back(std::move(block));
  return std::make_unique<Handle>(*this, std::move(blocks), std::vector<Return>{back},
                                  std::move(inner));
}

std::unique_ptr<CommHandle> StagedCommunicator::DoAllReduce(const void* input, void* output,
                                                            int64_t count, DType dtype,
                                                            ReduceOp op) {
  if (size() == 1 && input == output) return Finish({}, {}, nullptr);
  const BlockedTimer timer(blocked_s_);
  const int64_t num_bytes = count * SizeBytes(dtype);
  Block block = Take(num_bytes);
  std::byte* const data = block.data();
  CopyIn(data, input, num_bytes);
  auto inner = inner_.AllReduceAsync(data, data, count, dtype, op);
  return Finish(std::move(block), {data, output, num_bytes}, std::move(inner));
}

std::unique_ptr<CommHandle> StagedCommunicator::DoReduceScatter(const void* input, void* output,
                                                                int64_t count, DType dtype,
                                                                ReduceOp op) {
  if (size() == 1 && input == output) return Finish({}, {}, nullptr);
  const BlockedTimer timer(blocked_s_);
  const int64_t part_bytes = count * SizeBytes(dtype);
  Block block = Take(size() * part_bytes);
  std::byte* const data = block.data();
  std::byte* const own = data + rank() * part_bytes;
  CopyIn(data, input, size() * part_bytes);
  auto inner = inner_.ReduceScatterAsync(data, own, count, dtype, op);
  return Finish(std::move(block), {own, output, part_bytes}, std::move(inner));
}

std::unique_ptr<CommHandle> StagedCommunicator::DoAllGather(const void* input, void* output,
                                                            int64_t count, DType dtype) {
  if (size() == 1 && input == output) return Finish({}, {}, nullptr);
  const BlockedTimer timer(blocked_s_);
  const int64_t part_bytes = count * SizeBytes(dtype);
  Block block = Take(size() * part_bytes);
  std::byte* const data = block.data();
  std::byte* const own = data + rank() * part_bytes;
  CopyIn(own, input, part_bytes);
  auto inner = inner_.AllGatherAsync(own, data, count, dtype);
  return Finish(std::move(block), {data, output, size() * part_bytes}, std::move(inner));
}

void StagedCommunicator::DoBroadcast(void* data, int64_t count, DType dtype, int root) {
  if (size() == 1) return;
  const BlockedTimer timer(blocked_s_);
  const int64_t num_bytes = count * SizeBytes(dtype);
  Block block = Take(num_bytes);
  if (rank() == root) CopyIn(block.data(), data, num_bytes);
  inner_.Broadcast(block.data(), count, dtype, root);
  if (rank() != root) CopyOut({block.data(), data, num_bytes});
  GiveBack(std::move(block));
}

void StagedCommunicator::DoAllToAll(const void* input, void* output, int64_t count, DType dtype) {
  const BlockedTimer timer(blocked_s_);
  const int64_t num_bytes = size() * count * SizeBytes(dtype);
  Block sent = Take(num_bytes);
  Block received = Take(num_bytes);
  CopyIn(sent.data(), input, num_bytes);
  inner_.AllToAll(sent.data(), received.data(), count, dtype);
  CopyOut({received.data(), output, num_bytes});
  GiveBack(std::move(sent));
  GiveBack(std::move(received));
}

void StagedCommunicator::DoAllToAllV(const void* input, std::span<const int64_t> send_counts,
                                     void* output, std::span<const int64_t> receive_counts,
                                     DType dtype) {
  const BlockedTimer timer(blocked_s_);
  const auto bytes_of = [&](std::span<const int64_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0}) * SizeBytes(dtype);
  };
  Block sent = Take(bytes_of(send_counts));
  Block received = Take(bytes_of(receive_counts));
  CopyIn(sent.data(), input, bytes_of(send_counts));
  inner_.AllToAllV(sent.data(), send_counts, received.data(), receive_counts, dtype, 0);
  CopyOut({received.data(), output, bytes_of(receive_counts)});
  GiveBack(std::move(sent));
  GiveBack(std::move(received));
}

void StagedCommunicator::DoBarrier() {
  const BlockedTimer timer(blocked_s_);
  // Whichever of the two is the device's must not only be enqueued.
  if (staging_ == Staging::kDeviceOverHost) backend_.Synchronize();
  inner_.Barrier();
  if (staging_ == Staging::kHostOverDevice) backend_.Synchronize();
}

std::unique_ptr<CommHandle> StagedCommunicator::DoSend(const void* data, int64_t count, DType dtype,
                                                       int peer, int tag) {
  const BlockedTimer timer(blocked_s_);
  const int64_t num_bytes = count * SizeBytes(dtype);
  Block block = Take(num_bytes);
  std::byte* const copy = block.data();
  CopyIn(copy, data, num_bytes);
  if (!in_group_) {
    auto inner = inner_.SendAsync(copy, count, dtype, peer, tag);
    return Finish(std::move(block), {}, std::move(inner));
  }
  inner_.Send(copy, count, dtype, peer, tag);
  grouped_blocks_.push_back(std::move(block));
  return nullptr;
}

std::unique_ptr<CommHandle> StagedCommunicator::DoRecv(void* data, int64_t count, DType dtype,
                                                       int peer, int tag) {
  const BlockedTimer timer(blocked_s_);
  const int64_t num_bytes = count * SizeBytes(dtype);
  Block block = Take(num_bytes);
  std::byte* const copy = block.data();
  if (!in_group_) {
    auto inner = inner_.RecvAsync(copy, count, dtype, peer, tag);
    return Finish(std::move(block), {copy, data, num_bytes}, std::move(inner));
  }
  inner_.Recv(copy, count, dtype, peer, tag);
  grouped_blocks_.push_back(std::move(block));
  grouped_returns_.push_back({copy, data, num_bytes});
  return nullptr;
}

void StagedCommunicator::GroupStart() {
  inner_.GroupStart();
  in_group_ = true;
}

std::unique_ptr<CommHandle> StagedCommunicator::GroupEndAsync() {
  const BlockedTimer timer(blocked_s_);
  in_group_ = false;
  return std::make_unique<Handle>(*this, std::exchange(grouped_blocks_, {}),
                                  std::exchange(grouped_returns_, {}), inner_.GroupEndAsync());
}

std::unique_ptr<Communicator> StagedCommunicator::Split(int color, int key,
                                                        const std::string& name) {
  const BlockedTimer timer(blocked_s_);
  auto inner = inner_.Split(color, key, name);
  if (inner == nullptr) return nullptr;
  return std::unique_ptr<Communicator>(
      new StagedCommunicator(staging_, backend_, std::move(inner)));
}

}  // namespace tessera::engine
