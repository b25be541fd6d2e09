// Times the thread backend's operations by size and number of ranks, beside the rate at which the
// same threads copy memory: the most that any of them could reach.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/thread_world.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;
using Clock = std::chrono::steady_clock;

constexpr int64_t kSizesBytes[] = {1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20};
constexpr int kNumBatches = 7;
constexpr double kBatchBytes = 64 << 20;  // a batch repeats a small operation

struct Buffers {
  std::vector<float> a;
  std::vector<float> b;
};
using Operation = std::function<void(Communicator&, Buffers&, int64_t num_elements)>;

struct Row {
  const char* name;
  Operation run;
};

// Median over batches of the time of one operation. [s]
double MedianSeconds(int num_ranks, int64_t num_bytes, const Operation& run) {
  const auto num_elements = num_bytes / static_cast<int64_t>(sizeof(float));
  const int repeats = std::clamp(static_cast<int>(kBatchBytes / num_bytes), 1, 2000);
  std::vector<double> times_s;
  RunThreadRanks(num_ranks, {}, [&](Communicator& world) {
    Buffers buffers = {std::vector<float>(num_elements, 1.0f), std::vector<float>(num_elements)};
    for (int batch = 0; batch <= kNumBatches; ++batch) {
      world.Barrier();
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < repeats; ++i) run(world, buffers, num_elements);
      world.Barrier();
      const std::chrono::duration<double> elapsed = Clock::now() - start;
      if (batch > 0 && world.rank() == 0) times_s.push_back(elapsed.count() / repeats);
    }
  });
  std::sort(times_s.begin(), times_s.end());
  return times_s[times_s.size() / 2];
}

// Half of the bytes from each even rank to the odd one after it, then the other half back.
void PingPong(Communicator& world, Buffers& buffers, int64_t num_elements) {
  const int peer = world.rank() ^ 1;
  const bool is_first = world.rank() % 2 == 0;
  for (const bool sends_now : {is_first, !is_first}) {
    if (sends_now) {
      world.Send(buffers.a.data(), num_elements / 2, DType::kFloat32, peer, 0);
    } else {
      world.Recv(buffers.b.data(), num_elements / 2, DType::kFloat32, peer, 0);
    }
  }
}

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"memcpy", [](Communicator&, Buffers& x,
                    int64_t n) { std::memcpy(x.b.data(), x.a.data(), n * sizeof(float)); }},
      {"all-reduce",
       [](Communicator& world, Buffers& x, int64_t n) {
         world.AllReduce(x.a.data(), x.b.data(), n, DType::kFloat32, ReduceOp::kSum);
       }},
      {"all-reduce in place",
       [](Communicator& world, Buffers& x, int64_t n) {
         world.AllReduce(x.a.data(), x.a.data(), n, DType::kFloat32, ReduceOp::kMax);
       }},
      {"reduce-scatter",
       [](Communicator& world, Buffers& x, int64_t n) {
         world.ReduceScatter(x.a.data(), x.b.data(), n / world.size(), DType::kFloat32,
                             ReduceOp::kSum);
       }},
      {"all-gather",
       [](Communicator& world, Buffers& x, int64_t n) {
         world.AllGather(x.a.data(), x.b.data(), n / world.size(), DType::kFloat32);
       }},
      {"send+recv", PingPong},
  };
  return rows;
}

void PrintTable(int num_ranks) {
  std::printf("\n%d ranks: median time of a call; bytes of a rank's buffer / time\n", num_ranks);
  std::printf("%-20s", "operation");
  for (const int64_t num_bytes : kSizesBytes) std::printf("  %17lld KB", num_bytes / 1024LL);
  for (const Row& row : Rows()) {
    std::printf("\n%-20s", row.name);
    for (const int64_t num_bytes : kSizesBytes) {
      const double time_s = MedianSeconds(num_ranks, num_bytes, row.run);
      const double rate = static_cast<double>(num_bytes) / time_s;
      std::printf("  %8.1f us %4.1f GB/s", time_s * 1e6, rate * 1e-9);
      std::fflush(stdout);
    }
  }
  std::printf("\n");
}

}  // namespace
}  // namespace tessera::engine

int main() {
  for (const int num_ranks : {2, 4}) tessera::engine::PrintTable(num_ranks);
  return 0;
}
