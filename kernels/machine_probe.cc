#include "kernels/machine_probe.h"

#include <time.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <thread>

#include "kernels/backend.h"
#include "kernels/probe_args.h"

namespace tessera::kernels {
namespace {

using Clock = std::chrono::steady_clock;

// How long each size is measured; the best of the repetitions in that time counts.
constexpr double kWindowS = 0.05;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds that this thread has had a core: other work on the machine does not count.
double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Best time of one run of `operation` in a window that opens now. Runs so short that the clock
// matters are timed in bunches.
template <typename Operation>
double BestSeconds(const Operation& operation) {
  constexpr double kShortestTimedS = 50e-6;
  const Clock::time_point start = Clock::now();
  int bunch = 1;
  double best_s = std::numeric_limits<double>::infinity();
  while (SecondsSince(start) < kWindowS || !std::isfinite(best_s)) {
    const double bunch_start_s = ThreadSeconds();
    for (int i = 0; i < bunch; ++i) operation();
    const double bunch_s = ThreadSeconds() - bunch_start_s;
    if (bunch_s < kShortestTimedS) {
      bunch *= 2;
    } else {
      best_s = std::min(best_s, bunch_s / bunch);
    }
  }
  return best_s;
}

// Mean over the threads of their best seconds. body(backend, time) runs on every thread, sets up
// its arrays and calls time(operation) once; the windows open together.
template <typename Body>
double MeanBestSeconds(int num_threads, const Body& body) {
  std::barrier<> opening(num_threads);
  std::vector<double> best_s(num_threads);
  std::vector<std::exception_ptr> failures(num_threads);
  const auto run = [&](int thread) {
    bool has_arrived = false;
    try {
      const auto backend = MakeCpuBackend(1);
      body(*backend, [&](const auto& operation) {
        operation();  // touches the memory, fills the caches
        opening.arrive_and_wait();
        has_arrived = true;
        best_s[thread] = BestSeconds(operation);
      });
    } catch (...) {
      failures[thread] = std::current_exception();
      if (!has_arrived) opening.arrive_and_drop();
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 1; thread < num_threads; ++thread) threads.emplace_back(run, thread);
  run(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return std::accumulate(best_s.begin(), best_s.end(), 0.0) / num_threads;
}

class Floats {
 public:
  Floats(Backend& backend, int64_t n) : backend_(backend), num_bytes_(n * sizeof(float)) {
    memory_ = static_cast<float*>(backend.Allocate(num_bytes_));
    backend.Fill(memory_, n, 0.5F);
  }
  ~Floats() { backend_.Free(memory_, num_bytes_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  operator Array() const { return memory_; }       // NOLINT
  operator ConstArray() const { return memory_; }  // NOLINT
  Array From(int64_t offset) const { return memory_ + offset; }

 private:
  Backend& backend_;
  size_t num_bytes_;
  float* memory_;
};

RatePoint ProbeMatMul(int num_threads, int64_t size) {
  const double flops = 2.0 * std::pow(static_cast<double>(size), 3);
  const double seconds = MeanBestSeconds(num_threads, [&](Backend& backend, const auto& time) {
    const Floats a(backend, size * size), b(backend, size * size), c(backend, size * size);
    const MatMulArgs args = SquareMatMul(a, b, c, size);
    time([&] { backend.MatMul(args); });
  });
  return {flops, flops / seconds};
}

RatePoint ProbeAttention(int num_threads, int64_t sequence, int64_t num_heads) {
  constexpr int64_t kHeadDim = 64;
  const int64_t width = num_heads * kHeadDim;
  const double flops = PackedAttentionFlops(sequence, num_heads, kHeadDim);
  const double seconds = MeanBestSeconds(num_threads, [&](Backend& backend, const auto& time) {
    const Floats qkv(backend, sequence * 3 * width), dqkv(backend, sequence * 3 * width);
    const Floats out(backend, sequence * width), dout(backend, sequence * width);
    const Floats stats(backend, sequence * num_heads);
    const PackedAttention attention =
        MakePackedAttention({.qkv = qkv, .dqkv = dqkv, .out = out, .dout = dout, .stats = stats},
                            sequence, num_heads, kHeadDim);
    time([&] {
      backend.AttentionForward(attention.forward);
      backend.AttentionBackward(attention.backward);
    });
  });
  // A forward and a backward call are two operations, of half the FLOPs on average.
  return {flops / 2, flops / seconds};
}

RatePoint ProbePass(int num_threads, int64_t n) {
  const double bytes = 12.0 * static_cast<double>(n);
  const double seconds = MeanBestSeconds(num_threads, [&](Backend& backend, const auto& time) {
    const Floats x(backend, n), residual(backend, n), y(backend, n);
    time([&] {
      backend.ResidualAdd({.x = x, .residual = residual, .y = y, .num_rows = 1, .width = n});
    });
  });
  return {bytes, bytes / seconds};
}

// Arrays of this many elements together exceed any cache share of a core.
constexpr int64_t kLargeArray = int64_t{1} << 22;

double ProbeUpdate(int num_threads) {
  constexpr double kBytes = 28.0 * kLargeArray;
  const double seconds = MeanBestSeconds(num_threads, [](Backend& backend, const auto& time) {
    const Floats param(backend, kLargeArray), grad(backend, kLargeArray);
    const Floats m(backend, kLargeArray), v(backend, kLargeArray);
    time([&] {
      backend.AdamW({.param = param,
                     .grad = grad,
                     .m = m,
                     .v = v,
                     .n = kLargeArray,
                     .lr = 1e-4F,
                     .beta1 = 0.9F,
                     .beta2 = 0.95F,
                     .epsilon = 1e-8F,
                     .weight_decay = 0.1F});
    });
  });
  return num_threads * kBytes / seconds;
}

double ProbeOverhead(int num_threads) {
  return MeanBestSeconds(num_threads, [](Backend& backend, const auto& time) {
    const Floats x(backend, 1);
    time([&] { backend.Scale(x, 1, 1.0F); });
  });
}

}  // namespace

MachineProbe ProbeMachine(int num_threads) {
  TESSERA_CHECK(num_threads >= 1, num_threads, " threads");
  MachineProbe probe{.num_threads = num_threads};
  for (const int64_t size : {16, 32, 64, 128, 256, 512, 1024}) {
    probe.matmul_flops_per_s.push_back(ProbeMatMul(num_threads, size));
  }
  for (const auto& [sequence, num_heads] :
       {std::pair<int64_t, int64_t>{32, 1}, {64, 4}, {256, 4}, {1024, 4}}) {
    probe.attention_flops_per_s.push_back(ProbeAttention(num_threads, sequence, num_heads));
  }
  for (const int64_t n : {int64_t{256}, int64_t{4096}, int64_t{65536}, kLargeArray}) {
    probe.pass_bytes_per_s.push_back(ProbePass(num_threads, n));
  }
  probe.memory_bandwidth_bytes_per_s = num_threads * probe.pass_bytes_per_s.back().rate;
  probe.update_bandwidth_bytes_per_s = ProbeUpdate(num_threads);
  probe.op_overhead_s = ProbeOverhead(num_threads);
  return probe;
}

}  // namespace tessera::kernels
