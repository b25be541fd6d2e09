#include "tests/cuda_emulation/execution/kernel_launch.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/execution/block_runner.h"
#include "tests/cuda_emulation/execution/dynamic_shared.h"
#include "tests/cuda_emulation/execution/settings.h"
#include "tests/cuda_emulation/execution/static_shared.h"
#include "tests/cuda_emulation/execution/symbols.h"
#include "tests/cuda_emulation/execution/worker_pool.h"
#include "tests/cuda_emulation/runtime/fault.h"

namespace tessera::cuda_emulation {
namespace {

// Runners keep their stacks from kernel to kernel.
class RunnerPool {
 public:
  std::unique_ptr<BlockRunner> Take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<BlockRunner>();
    std::unique_ptr<BlockRunner> runner = std::move(free_.back());
    free_.pop_back();
    return runner;
  }
  void Return(std::unique_ptr<BlockRunner> runner) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(runner));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<BlockRunner>> free_;
};

RunnerPool& Runners() {
  static RunnerPool pool;
  return pool;
}

// The order in which the blocks of a grid start.
class BlockOrder {
 public:
  BlockOrder(int64_t num_blocks, const ExecutionSettings& settings)
      : num_blocks_(num_blocks), order_(settings.order) {
    const uint64_t drawn = (settings.seed + 1) * 0x9e3779b97f4a7c15u >> 1;
    shift_ = static_cast<int64_t>(drawn % static_cast<uint64_t>(num_blocks));
    factor_ = shift_ % 65521 + 1;  // small enough for the product below
    while (std::gcd(factor_, num_blocks) != 1) ++factor_;
  }
  int64_t BlockAt(int64_t position) const {
    switch (order_) {
      case ThreadOrder::kForward:
        break;
      case ThreadOrder::kReverse:
        return num_blocks_ - 1 - position;
      case ThreadOrder::kRandom:
        return (position * factor_ + shift_) % num_blocks_;
    }
    return position;
  }

 private:
  int64_t num_blocks_;
  ThreadOrder order_;
  int64_t shift_;
  int64_t factor_;
};

uint3 IndexOf(int64_t block, const dim3& grid) {
  return {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
          static_cast<unsigned>(block / grid.x / grid.y)};
}

// The blocks of one kernel, taken one by one by the threads that run them.
class BlockQueue {
 public:
  BlockQueue(const KernelLaunch& launch, const ExecutionSettings& settings)
      : launch_(launch), settings_(settings), order_(launch.num_blocks(), settings) {}

  // Runs blocks until none is left or one has failed.
  void Work() {
    std::unique_ptr<BlockRunner> runner = Runners().Take();
    try {
      runner->Begin(launch_, settings_);
      ReserveDynamicShared(launch_.dynamic_bytes);
      StaticSharedMemory static_shared(launch_.function);
      for (int64_t next; (next = next_.fetch_add(1)) < launch_.num_blocks();) {
        static_shared.BeforeBlock();
        RunBlock(*runner, IndexOf(order_.BlockAt(next), launch_.grid));
      }
      Runners().Return(std::move(runner));
    } catch (const Fault& fault) {
      next_ = launch_.num_blocks();
      const std::lock_guard lock(mutex_);
      fault_ = fault.what();
    }
  }

  const std::string& fault() const { return fault_; }

 private:
  void RunBlock(BlockRunner& runner, uint3 index) {
    PoisonDynamicShared(launch_.dynamic_bytes);
    runner.RunBlock(index);
    if (!IsDynamicSharedIntact(launch_.dynamic_bytes)) {
      throw Fault("kernel " + FunctionName(launch_.function) + ": wrote beyond its " +
                  std::to_string(launch_.dynamic_bytes) + " bytes of dynamic shared memory");
    }
  }

  const KernelLaunch& launch_;
  const ExecutionSettings settings_;
  const BlockOrder order_;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::string fault_;
};

}  // namespace

void RunKernel(const KernelLaunch& launch) {
  const ExecutionSettings settings = GetExecutionSettings();
  BlockQueue blocks(launch, settings);
  const int64_t num_helpers = std::min<int64_t>(settings.num_workers, launch.num_blocks()) - 1;
  RunWithHelpers(static_cast<int>(num_helpers), [&] { blocks.Work(); });
  if (!blocks.fault().empty()) throw Fault(blocks.fault());
}

}  // namespace tessera::cuda_emulation
