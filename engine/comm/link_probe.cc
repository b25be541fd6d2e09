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

// Median time of one all-reduce over batches of `batch_size`, as this rank sees it.
double MedianAllReduceSeconds(Communicator& comm, std::vector<float>& data, int num_batches,
                              int batch_size) {
  using Clock = std::chrono::steady_clock;
  const auto count = static_cast<int64_t>(data.size());
  std::vector<double> times_s;
  for (int batch = 0; batch <= num_batches; ++batch) {
    comm.Barrier();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < batch_size; ++i) {
      comm.AllReduce(data.data(), data.data(), count, DType::kFloat32, ReduceOp::kMax);
    }
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    // The first one touches the pages and wakes the ranks.
    if (batch > 0) times_s.push_back(elapsed.count() / batch_size);
  }
  const auto middle = times_s.begin() + static_cast<int64_t>(times_s.size()) / 2;
  std::nth_element(times_s.begin(), middle, times_s.end());
  return *middle;
}

}  // namespace

LinkProbe ProbeLinks(Communicator& comm) {
  const int n = comm.size();
  TESSERA_CHECK(n >= 2, comm.name(), ": no link in a group of ", n);
  LinkProbe probe = {.num_ranks = n};
  std::vector<float> small(kSmallElements, 1.0f);
  probe.all_reduce_latency_s = MedianAllReduceSeconds(comm, small, 21, 50);
  std::vector<float> large(std::min(kLargeElements, kMaxTotalElements / n), 1.0f);
  const double large_s = MedianAllReduceSeconds(comm, large, 5, 1);
  const auto large_bytes = static_cast<double>(large.size() * sizeof(float));
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
