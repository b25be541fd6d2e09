// The calls that communicate, and groups of them.
#include <utility>

#include "tests/cuda_emulation/nccl/communicator.h"
#include "tests/cuda_emulation/nccl/operation.h"

using namespace tessera::cuda_emulation;        // NOLINT: the library's own names are global
using namespace tessera::cuda_emulation::nccl;  // NOLINT

namespace {

// What one communicator runs on one stream in one group.
struct Batch {
  std::shared_ptr<RankState> rank;
  cudaStream_t stream;
  std::vector<NcclCall> calls;
};

struct Group {
  int depth = 0;
  ncclResult_t result = ncclSuccess;  // the first refusal: then nothing of the group is posted
  std::vector<Batch> batches;
};
thread_local Group group;

ncclResult_t CheckCall(const NcclCall& call, RankState& rank, cudaStream_t stream) {
  const auto refuse = [&](const std::string& reason) {
    return RefuseCall(ncclInvalidArgument, &rank, Describe(call) + ": " + reason);
  };
  if (SizeBytes(call.type) == 0) return refuse("no such type");
  if (call.op < 0 || call.op >= ncclNumOps) return refuse("no such reduction");
  const bool has_peer = !call.is_collective() || call.kind == NcclCallKind::kBroadcast;
  if (has_peer && (call.peer < 0 || call.peer >= rank.clique->num_ranks())) {
    return refuse("rank outside of the communicator");
  }
  if (DeviceOf(stream) != rank.device) {
    return refuse("the stream is on device " + std::to_string(DeviceOf(stream)) +
                  ", the communicator on device " + std::to_string(rank.device));
  }
  return ncclSuccess;
}

ncclResult_t Launch(const Batch& batch) {
  RankState& rank = *batch.rank;
  if (const auto problem = CheckBuffers(batch.calls, rank.rank, rank.clique->num_ranks())) {
    return RefuseCall(ncclInvalidArgument, &rank, *problem);
  }
  auto operation = std::make_unique<NcclOperation>(batch.rank, batch.calls);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(batch.stream, &capture) != cudaSuccess) return ncclUnhandledCudaError;
  if (capture == cudaStreamCaptureStatusNone) {
    if (const auto failure = operation->Issue()) {
      NotifyProgress();  // the others fail too
      return RefuseCall(ncclInvalidUsage, &rank, *failure);
    }
  } else {
    operation->HoldCommunicator();
  }
  if (Enqueue(batch.stream, std::move(operation)) != cudaSuccess) return ncclUnhandledCudaError;
  NotifyProgress();
  return ncclSuccess;
}

// Adds a call to the group's batch of its communicator.
ncclResult_t AddToGroup(const std::shared_ptr<RankState>& rank, const NcclCall& call,
                        cudaStream_t stream) {
  for (Batch& batch : group.batches) {
    if (batch.rank != rank) continue;
    if (batch.stream != stream) {
      return RefuseCall(ncclInvalidUsage, rank.get(),
                        Describe(call) + ": one communicator on two streams in one group");
    }
    batch.calls.push_back(call);
    return ncclSuccess;
  }
  group.batches.push_back({rank, stream, {call}});
  return ncclSuccess;
}

ncclResult_t Post(const NcclCall& call, ncclComm_t comm, cudaStream_t stream) {
  const auto rank = RankOf(comm);
  ncclResult_t result = ncclSuccess;
  if (rank == nullptr) {
    result = RefuseCall(ncclInvalidArgument, nullptr,
                        Describe(call) + ": the communicator is null or was destroyed");
  }
  if (result == ncclSuccess) result = CheckCall(call, *rank, stream);
  if (group.depth == 0) return result != ncclSuccess ? result : Launch({rank, stream, {call}});
  if (result == ncclSuccess) result = AddToGroup(rank, call, stream);
  if (group.result == ncclSuccess) group.result = result;
  return result;
}

}  // namespace

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) {
    return RefuseCall(ncclInvalidUsage, nullptr, "ncclGroupEnd: no group was started");
  }
  if (--group.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group, {});
  if (ended.result != ncclSuccess) return ended.result;
  for (const Batch& batch : ended.batches) {
    if (const ncclResult_t result = Launch(batch); result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Post({NcclCallKind::kAllReduce, send, receive, count, type, op}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return Post({NcclCallKind::kReduceScatter, send, receive, receive_count, type, op}, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Post({NcclCallKind::kAllGather, send, receive, send_count, type}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return Post({NcclCallKind::kBroadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Post({NcclCallKind::kSend, send, nullptr, count, type, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Post({NcclCallKind::kReceive, nullptr, receive, count, type, ncclSum, peer}, comm, stream);
}
