#include "engine/comm/nccl_communicator.h"

#include <numeric>
#include <utility>

#include "cost_model/base/check.h"
#include "engine/comm/done_handle.h"
#include "engine/comm/nccl_error.h"
#include "engine/comm/nccl_types.h"
#include "kernels/cuda/cuda_error.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;
using kernels::cuda::CheckCuda;

}  // namespace

class NcclCommunicator::Handle final : public CommHandle {
 public:
  Handle(NcclGroup& group, const char* what, NcclGroup::Done done)
      : group_(group), what_(what), done_(std::move(done)) {}
  ~Handle() override {
    if (waited_ || done_->IsOver()) return;
    NcclWorld& world = group_.world();
    world.Fail(
        base::Concat(world.Describe(), ": ", what_, " of ", group_.info().name, " was given up"));
  }
  void Wait() override {
    if (std::exchange(waited_, true)) return;
    group_.MakeComputeWait(what_, *done_);
  }

 private:
  NcclGroup& group_;
  const char* const what_;
  const NcclGroup::Done done_;
  bool waited_ = false;
};

ncclUniqueId NcclUniqueId() {
  ncclUniqueId id = {};
  CheckNccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::MakeWorld(NcclWorld& world,
                                                              const ncclUniqueId& id) {
  NcclGroupInfo info = {.name = "world", .id = "world", .rank = world.rank()};
  info.world_ranks.resize(static_cast<size_t>(world.num_ranks()));
  std::iota(info.world_ranks.begin(), info.world_ranks.end(), 0);
  auto group =
      std::make_unique<NcclGroup>(world, std::move(info), [&](const char* name, ncclComm_t* comm) {
        ncclConfig_t config = MakeNcclConfig(name);
        return ncclCommInitRankConfig(comm, world.num_ranks(), id, world.rank(), &config);
      });
  return std::unique_ptr<NcclCommunicator>(new NcclCommunicator(std::move(group)));
}

std::unique_ptr<CommHandle> NcclCommunicator::Post(const char* what,
                                                   const NcclGroup::Enqueue& enqueue) {
  TESSERA_CHECK(!in_group_, name(), ": ", what, " between GroupStart and GroupEnd");
  return std::make_unique<Handle>(*group_, what, group_->Post(what, enqueue));
}

std::unique_ptr<CommHandle> NcclCommunicator::CopyAlone(const void* input, void* output,
                                                        int64_t num_bytes) {
  if (input != output && num_bytes > 0) {
    CheckCuda(cudaMemcpyAsync(output, input, static_cast<size_t>(num_bytes),
                              cudaMemcpyDeviceToDevice, group_->world().compute_stream()),
              "cudaMemcpyAsync on the device");
  }
  return std::make_unique<DoneHandle>();
}

std::unique_ptr<CommHandle> NcclCommunicator::DoAllReduce(const void* input, void* output,
                                                          int64_t count, DType dtype, ReduceOp op) {
  if (size() == 1 || count == 0) return CopyAlone(input, output, count * SizeBytes(dtype));
  return Post("all-reduce", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(input, output, static_cast<size_t>(count), NcclReducibleType(dtype),
                         NcclOpOf(op), comm, stream);
  });
}

std::unique_ptr<CommHandle> NcclCommunicator::DoReduceScatter(const void* input, void* output,
                                                              int64_t count, DType dtype,
                                                              ReduceOp op) {
  if (size() == 1 || count == 0) return CopyAlone(input, output, count * SizeBytes(dtype));
  return Post("reduce-scatter", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclReduceScatter(input, output, static_cast<size_t>(count), NcclReducibleType(dtype),
                             NcclOpOf(op), comm, stream);
  });
}

std::unique_ptr<CommHandle> NcclCommunicator::DoAllGather(const void* input, void* output,
                                                          int64_t count, DType dtype) {
  if (size() == 1 || count == 0) return CopyAlone(input, output, count * SizeBytes(dtype));
  return Post("all-gather", [&](ncclComm_t comm, cudaStream_t stream) {
    const NcclElements elements = NcclElementsOf(count, dtype);
    return ncclAllGather(input, output, elements.count, elements.type, comm, stream);
  });
}

void NcclCommunicator::DoBroadcast(void* data, int64_t count, DType dtype, int root) {
  if (size() == 1 || count == 0) return;
  Post("broadcast", [&](ncclComm_t comm, cudaStream_t stream) {
    const NcclElements elements = NcclElementsOf(count, dtype);
    return ncclBroadcast(data, data, elements.count, elements.type, root, comm, stream);
  })->Wait();
}

void NcclCommunicator::DoAllToAll(const void* input, void* output, int64_t count, DType dtype) {
  const int64_t block_bytes = count * SizeBytes(dtype);
  if (size() == 1 || count == 0) {
    CopyAlone(input, output, block_bytes)->Wait();
    return;
  }
  const auto exchange = [&](ncclComm_t comm, cudaStream_t stream) {
    const NcclElements elements = NcclElementsOf(count, dtype);
    ncclResult_t result = ncclGroupStart();
    for (int peer = 0; peer < size() && result == ncclSuccess; ++peer) {
      const auto* const block = static_cast<const std::byte*>(input) + peer * block_bytes;
      result = ncclSend(block, elements.count, elements.type, peer, comm, stream);
      if (result != ncclSuccess) break;
      result = ncclRecv(static_cast<std::byte*>(output) + peer * block_bytes, elements.count,
                        elements.type, peer, comm, stream);
    }
    const ncclResult_t end = ncclGroupEnd();
    return result == ncclSuccess ? end : result;
  };
  Post("all-to-all", exchange)->Wait();
}

void NcclCommunicator::DoAllToAllV(const void* input, std::span<const int64_t> send_counts,
                                   void* output, std::span<const int64_t> receive_counts,
                                   DType dtype) {
  if (size() == 1) {
    CopyAlone(input, output, send_counts[0] * SizeBytes(dtype))->Wait();
    return;
  }
  const auto exchange = [&](ncclComm_t comm, cudaStream_t stream) {
    const auto* from = static_cast<const std::byte*>(input);
    auto* to = static_cast<std::byte*>(output);
    ncclResult_t result = ncclGroupStart();
    for (int peer = 0; peer < size() && result == ncclSuccess; ++peer) {
      const NcclElements sent = NcclElementsOf(send_counts[peer], dtype);
      const NcclElements received = NcclElementsOf(receive_counts[peer], dtype);
      if (sent.count > 0) result = ncclSend(from, sent.count, sent.type, peer, comm, stream);
      if (received.count > 0 && result == ncclSuccess) {
        result = ncclRecv(to, received.count, received.type, peer, comm, stream);
      }
      from += send_counts[peer] * SizeBytes(dtype);
      to += receive_counts[peer] * SizeBytes(dtype);
    }
    const ncclResult_t end = ncclGroupEnd();
    return result == ncclSuccess ? end : result;
  };
  Post("all-to-all", exchange)->Wait();
}

void NcclCommunicator::DoBarrier() {
  if (size() == 1) return;
  Post("barrier", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(group_->scratch(), group_->scratch(), 1, ncclUint8, ncclMax, comm, stream);
  })->Wait();
}

std::unique_ptr<CommHandle> NcclCommunicator::PostMessage(const char* what, Message message) {
  TESSERA_CHECK(size() > 1, name(), ": a message to itself");
  if (!in_group_) return Post(what, message);
  grouped_.push_back(std::move(message));
  return nullptr;
}

std::unique_ptr<CommHandle> NcclCommunicator::DoSend(const void* data, int64_t count, DType dtype,
                                                     int peer, int) {
  const NcclElements elements = NcclElementsOf(count, dtype);
  return PostMessage("send", [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclSend(data, elements.count, elements.type, peer, comm, stream);
  });
}

std::unique_ptr<CommHandle> NcclCommunicator::DoRecv(void* data, int64_t count, DType dtype,
                                                     int peer, int) {
  const NcclElements elements = NcclElementsOf(count, dtype);
  return PostMessage("receive", [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclRecv(data, elements.count, elements.type, peer, comm, stream);
  });
}

void NcclCommunicator::GroupStart() {
  TESSERA_CHECK(!in_group_, name(), ": GroupStart inside a group");
  in_group_ = true;
}

std::unique_ptr<CommHandle> NcclCommunicator::GroupEndAsync() {
  TESSERA_CHECK(in_group_, name(), ": GroupEnd without GroupStart");
  in_group_ = false;
  const std::vector<Message> messages = std::exchange(grouped_, {});
  if (messages.empty()) return std::make_unique<DoneHandle>();
  const auto exchange = [&](ncclComm_t comm, cudaStream_t stream) {
    ncclResult_t result = ncclGroupStart();
    for (size_t i = 0; i < messages.size() && result == ncclSuccess; ++i) {
      result = messages[i](comm, stream);
    }
    const ncclResult_t end = ncclGroupEnd();
    return result == ncclSuccess ? end : result;
  };
  return Post("exchange of messages", exchange);
}

void NcclCommunicator::Abort(const std::string& reason) { group_->world().Fail(reason); }

}  // namespace tessera::engine
