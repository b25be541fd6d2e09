// What the NCCL double checks, and its switches for tests.
//
// Creation   collective: ranks of one id (or one split) wait for each other, and fail naming the
//            missing ones after a time. Two ranks on one device are refused, as NCCL does.
// Order      every rank issues the same collectives, in one order, with equal count, type,
// operation
//            and root: the call that differs returns ncclInvalidUsage naming both, and the others'
//            pending operations throw a Fault with the same words. A GPU would hang, or sum
//            garbage.
// Sends      rendezvous: the n-th send to a peer meets its n-th receive; neither completes before
//            the other has been reached. Calls of one group go on side by side, groups one after
//            the other, also on different streams (NCCL launches a communicator's work in its order
//            of issue). So exchanges that are not grouped deadlock here, always.
// Buffers    device memory, aligned to its elements, alive until the operation has run; in place
//            only as documented (sendbuff == recvbuff + rank * count and its kin), otherwise apart.
// Sums       in ascending rank order, fp32 inside for 16-bit types, or as a ring adds.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

namespace tessera::cuda_emulation {

// Seconds that ncclCommInitRank and ncclCommSplit wait for the other ranks; 60 at the start.
void SetNcclTimeout(double timeout_s);

// Lets ranks of one communicator share a device.
void SetNcclSharedDevices(bool allowed);

enum class NcclReduction {
  kAscending,
  // Each block of the buffer starts at another rank, drawn by the seed, and every addition rounds
  // to the buffer's type, as on a ring: code that relies on an order of its own shows.
  kRing,
};
// For what runs afterwards. The environment sets the start: TESSERA_NCCL_REDUCTION=ascending|ring.
void SetNcclReduction(NcclReduction reduction, uint64_t seed = 0);

// From its operation number `operation` on (groups and single calls of the communicator, from 0)
// `rank` is not heard of any more; with an `async_error`, ncclCommGetAsyncError says so there.
struct NcclFailure {
  std::string communicator;  // commName of its configuration; else a split adds "/" and the color
  int rank = 0;
  int64_t operation = 0;
  ncclResult_t async_error = ncclSuccess;
};
void InjectNcclFailure(const NcclFailure& failure);
void ClearNcclFailures();

}  // namespace tessera::cuda_emulation
