// Runs the blocks of kernels, one after the other, on one operating-system thread.
//
// A fiber runs one CUDA thread after the other until one of them must wait; only then is another
// fiber taken. A kernel without barriers and warp intrinsics is thus a plain loop over its threads.
// Warps are kept together: a warp's lanes take turns among themselves, so that a shuffle touches 32
// stacks, which the first-level cache holds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_emulation/device/meeting.h"
#include "tests/cuda_emulation/execution/fiber.h"
#include "tests/cuda_emulation/execution/kernel_launch.h"
#include "tests/cuda_emulation/execution/settings.h"
#include "tests/cuda_emulation/execution/warp.h"

namespace tessera::cuda_emulation {

class BlockRunner {
 public:
  // The one that runs a block on this operating-system thread; a Fault where none does.
  static BlockRunner& Current();

  BlockRunner();
  ~BlockRunner();

  // Prepares for blocks of this kernel, which must outlive them.
  void Begin(const KernelLaunch& launch, const ExecutionSettings& settings);

  // Runs the block at an index of the grid, x fastest. Throws a Fault where the kernel is broken;
  // the runner is of no use afterwards.
  void RunBlock(uint3 block_index);

  // What the intrinsics of device/meeting.h call from inside a kernel.
  const BlockVote& MeetBlock(bool predicate, const char* what, const Place& place);
  LaneValues MeetLanes(unsigned mask, uint64_t value, const char* what, const Place& place,
                       LaneWork work);
  unsigned LiveLanes() const { return warps_[current_->warp].live; }
  [[noreturn]] void FailThread(const std::string& what, const Place& place) const;

  // Ends the kernel with a fault of the running thread, from where nothing can be thrown.
  [[noreturn]] void Stop(std::string message);

 private:
  struct Worker;  // a fiber with its stack
  struct Thread {
    uint3 index;
    unsigned warp;
    unsigned lane;
    Worker* worker;
    const char* waits_at;
    Place place;
  };
  struct Barrier {
    unsigned num_arrived = 0;
    unsigned num_true = 0;
    const char* what = nullptr;
    Place place;
    BlockVote vote;  // of the last time that all met
  };

  static void RunFiber();
  void RunThread();
  void ReturnThread();
  void MakeThreads();

  void Wait(const char* what, const Place& place);
  Worker* TakeNext();
  unsigned PickWarp();
  unsigned Pick(uint32_t candidates);
  uint32_t Draw();
  void MakeReady(unsigned warp, uint32_t lanes);
  void ReleaseBarrier();
  void GoOnWith(Worker* next);
  std::string DescribeDeadlock() const;

  const KernelLaunch* launch_ = nullptr;
  ExecutionSettings settings_;
  uint64_t random_ = 0;
  dim3 threads_shape_{0, 0, 0};
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  unsigned num_warps_ = 0;
  uint32_t runnable_warps_ = 0;
  unsigned current_warp_ = 0;
  unsigned num_live_ = 0;
  Barrier barrier_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  Thread* current_ = nullptr;
  Worker* running_ = nullptr;  // null: the root
  Fiber root_;
  std::string fault_;
};

}  // namespace tessera::cuda_emulation
