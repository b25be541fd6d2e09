#include "engine/comm/link_probe.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "cost_model/base/check.h"
#include "engine/comm/thread_world.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;

constexpr int64_t kSmallElements = 256;
// Past the caches of one rank; together the ranks take no more than kMaxTotalElements.
constexpr int64_t kLargeElements = int64_t{8} << 20;
constexpr int64_t kMaxTotalElements = int64_t{64} << 20;

// `count` ones, on the host or on a device.
class Ones {
 public:
  Ones(kernels::Backend* backend, int64_t count) : backend_(backend), count_(count) {
    if (backend_ == nullptr) {
      host_.assign(count, 1.0F);
      return;
    }
    device_ = backend_->Allocate(count * sizeof(float));
    backend_->Fill({device_, DType::kFloat32}, count, 1.0F);
  }
  ~Ones() {
    if (device_ != nullptr) backend_->Free(device_, count_ * sizeof(float));
  }
  Ones(const Ones&) = delete;
  Ones& operator=(const Ones&) = delete;

  void* data() { return device_ != nullptr ? device_ : host_.data(); }
  int64_t count() const { return count_; }
  // Collectives of devices return before they are done.
  void Wait() {
    if (backend_ != nullptr) backend_->Synchronize();
  }

 private:
  kernels::Backend* backend_;
  int64_t count_;
  std::vector<float> host_;
  void* device_ = nullptr;
};

// Median time of one all-reduce over batches of `batch_size`, as this rank sees it.
double MedianAllReduceSeconds(Communicator& comm, Ones& data, int num_batches, int batch_size) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times_s;
  for (int batch = 0; batch <= num_batches; ++batch) {
    comm.Barrier();
    data.Wait();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < batch_size; ++i) {
      comm.AllReduce(data.data(), data.data(), data.count(), DType::kFloat32, ReduceOp::kMax);
    }
    data.Wait();
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    // The first one touches the pages and wakes the ranks.
    if (batch > 0) times_s.push_back(elapsed.count() / batch_size);
  }
  const auto middle = times_s.begin() + static_cast<int64_t>(times_s.size()) / 2;
  std::nth_element(times_s.begin(), middle, times_s.end());
  return *middle;
}

}  // namespace

LinkProbe ProbeLinks(Communicator& comm, kernels::Backend* backend, int64_t num_device_elements) {
  const int n = comm.size();
  TESSERA_CHECK(n >= 2, comm.name(), ": no link in a group of ", n);
  LinkProbe probe = {.num_ranks = n};
  Ones small(backend, kSmallElements);
  probe.all_reduce_latency_s = MedianAllReduceSeconds(comm, small, 21, 50);
  Ones large(backend, backend != nullptr ? num_device_elements
                                         : std::min(kLargeElements, kMaxTotalElements / n));
  const double large_s = MedianAllReduceSeconds(comm, large, 5, 1);
  const auto large_bytes = static_cast<double>(large.count() * sizeof(float));
  probe.bandwidth_bytes_per_s = 2.0 * (n - 1) / n * large_bytes / large_s;
  return probe;
}

LinkProbe ProbeThreadLinks(int num_ranks) {
  LinkProbe probe;
  RunThreadRanks(num_ranks, {}, [&](Communicator& world) {
    const LinkProbe mine = ProbeLinks(world);
    if (world.rank() == 0) probe = mine;
  });
  return probe;
}

}  // namespace tessera::engine
