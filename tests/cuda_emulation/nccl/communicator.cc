// Handles: queries, destruction, errors.
#include "tests/cuda_emulation/nccl/communicator.h"

#include <chrono>
#include <cstdio>
#include <set>

#include "tests/cuda_emulation/nccl/settings.h"
#include "tests/cuda_emulation/runtime/stream_queue.h"

namespace tessera::cuda_emulation::nccl {
namespace {

thread_local std::string last_error;

struct Handles {
  std::mutex mutex;
  std::set<ncclComm_t> alive;
};

Handles& AllHandles() {
  static Handles handles;
  return handles;
}

// The rank of a handle that lives no longer; null where there was none.
std::shared_ptr<RankState> Release(ncclComm_t handle) {
  auto rank = RankOf(handle);
  if (rank == nullptr) return nullptr;
  {
    const std::lock_guard lock(AllHandles().mutex);
    AllHandles().alive.erase(handle);
    delete handle;
  }
  const std::lock_guard lock(rank->clique->mutex());
  rank->clique->Unregister(rank.get());
  return rank;
}

// NCCL keeps a communicator until all graphs that captured its operations are destroyed, aborted or
// not (commDestroySync): nothing else than a wait tells the caller.
ncclResult_t AwaitGraphs(RankState& rank, const char* function) {
  const std::chrono::duration<double> patience(GetNcclSettings().timeout_s);
  {
    std::unique_lock lock(rank.clique->mutex());
    if (rank.clique->condition().wait_for(lock, patience,
                                          [&] { return rank.num_in_graphs == 0; })) {
      return ncclSuccess;
    }
  }
  return RefuseCall(ncclInternalError, &rank,
                    std::string(function) + ": a graph that uses the communicator still lives");
}

ncclResult_t RefuseHandle(const char* function) {
  return RefuseCall(ncclInvalidArgument, nullptr,
                    std::string(function) + ": the communicator is null or was destroyed");
}

}  // namespace

ncclComm_t MakeHandle(std::shared_ptr<RankState> rank) {
  {
    const std::lock_guard lock(rank->clique->mutex());
    rank->clique->Register(rank.get());
  }
  const std::lock_guard lock(AllHandles().mutex);
  return *AllHandles().alive.insert(new ncclComm{std::move(rank)}).first;
}

std::shared_ptr<RankState> RankOf(ncclComm_t handle) {
  const std::lock_guard lock(AllHandles().mutex);
  return AllHandles().alive.contains(handle) ? handle->rank : nullptr;
}

ncclResult_t RefuseCall(ncclResult_t result, RankState* rank, const std::string& reason) {
  last_error = reason;
  if (rank != nullptr) {
    const std::lock_guard lock(rank->clique->mutex());
    rank->last_error = reason;
  }
  std::fprintf(stderr, "NCCL double: %s\n", reason.c_str());
  return result;
}

}  // namespace tessera::cuda_emulation::nccl

using namespace tessera::cuda_emulation;        // NOLINT: the library's own names are global
using namespace tessera::cuda_emulation::nccl;  // NOLINT

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const auto rank = RankOf(comm);
  if (rank == nullptr) return RefuseHandle("ncclCommDestroy");
  int64_t num_pending = 0;
  {
    const std::lock_guard lock(rank->clique->mutex());
    num_pending = rank->is_aborted ? 0 : rank->num_issued - rank->num_completed;
  }
  if (num_pending > 0) {
    return RefuseCall(ncclInvalidUsage, rank.get(),
                      "ncclCommDestroy: " + std::to_string(num_pending) +
                          " operations are pending: synchronise their streams, or abort");
  }
  const ncclResult_t result = AwaitGraphs(*rank, "ncclCommDestroy");
  Release(comm);
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const auto rank = Release(comm);
  if (rank == nullptr) return RefuseHandle("ncclCommAbort");
  {
    const std::lock_guard lock(rank->clique->mutex());
    rank->clique->Abort(*rank);
  }
  NotifyProgress();
  return AwaitGraphs(*rank, "ncclCommAbort");
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* async_error) {
  const auto rank = RankOf(comm);
  if (rank == nullptr || async_error == nullptr) return RefuseHandle("ncclCommGetAsyncError");
  const std::lock_guard lock(rank->clique->mutex());
  const auto injected = FindNcclFailure(rank->clique->name(), rank->rank, rank->num_issued - 1);
  *async_error = rank->clique->failure() ? ncclInvalidUsage
                 : injected              ? injected->async_error
                                         : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* num_ranks) {
  const auto rank = RankOf(comm);
  if (rank == nullptr || num_ranks == nullptr) return RefuseHandle("ncclCommCount");
  *num_ranks = rank->clique->num_ranks();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank_out) {
  const auto rank = RankOf(comm);
  if (rank == nullptr || rank_out == nullptr) return RefuseHandle("ncclCommUserRank");
  *rank_out = rank->rank;
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t comm) {
  const auto rank = RankOf(comm);
  if (rank == nullptr) return last_error.c_str();
  const std::lock_guard lock(rank->clique->mutex());
  if (rank->clique->failure()) return rank->clique->failure()->c_str();
  return rank->last_error.c_str();
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclNumResults:
      break;
  }
  return "unknown result code";
}
