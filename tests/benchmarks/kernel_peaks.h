// What the kernel benchmarks compare with: plain matrix products and plain passes over memory,
// timed in the same moment as the kernel.
#pragma once

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/blas.h"

namespace tessera::kernels {

// GPT-2 124M with 4 sequences of 256 tokens.
constexpr int64_t kTokens = 1024, kHidden = 768, kFfn = 3072, kVocab = 50304;

// Seconds that run() takes. On one thread its CPU time, which other work on the machine hardly
// changes; on several the time of the clock on the wall.
template <typename Run>
double SecondsOf(int num_threads, const Run& run) {
  const clockid_t clock = num_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  timespec start = {};
  timespec end = {};
  clock_gettime(clock, &start);
  run();
  clock_gettime(clock, &end);
  return static_cast<double>(end.tv_sec - start.tv_sec) +
         1e-9 * static_cast<double>(end.tv_nsec - start.tv_nsec);
}

// Runs body(thread) on `num_threads` threads at once.
template <typename Body>
void OnThreads(int num_threads, const Body& body) {
  std::vector<std::thread> threads;
  for (int thread = 1; thread < num_threads; ++thread) threads.emplace_back(body, thread);
  body(0);
  for (std::thread& thread : threads) thread.join();
}

inline std::vector<float> Values(int64_t n) {
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>((i * 7919) % 2048) / 1024 - 1;
  return values;
}

// Matrix products of one thread each, on all threads at once: the rate that one could hope for.
class SgemmPeak {
 public:
  explicit SgemmPeak(int num_threads)
      : num_threads_(num_threads), a_(Values(kSize * kSize)), c_(num_threads) {
    for (auto& c : c_) c.resize(kSize * kSize);
  }

  // The libraries' layouts differ in speed: all three are tried.
  void Measure() {
    MeasureLayout(Transpose::kNo, Transpose::kNo);
    MeasureLayout(Transpose::kNo, Transpose::kYes);
    MeasureLayout(Transpose::kYes, Transpose::kNo);
  }
  double best_flops_per_s() const { return best_flops_per_s_; }

 private:
  static constexpr int64_t kSize = 768;

  void MeasureLayout(Transpose transpose_a, Transpose transpose_b) {
    const double seconds = SecondsOf(num_threads_, [&] {
      OnThreads(num_threads_, [&](int thread) {
        UseOneBlasThread();
        Gemm({.transpose_a = transpose_a,
              .transpose_b = transpose_b,
              .m = kSize,
              .n = kSize,
              .k = kSize,
              .a = a_.data(),
              .lda = kSize,
              .b = a_.data(),
              .ldb = kSize,
              .c = c_[thread].data(),
              .ldc = kSize});
      });
    });
    const double flops = 2.0 * kSize * kSize * kSize * num_threads_;
    best_flops_per_s_ = std::max(best_flops_per_s_, flops / seconds);
  }

  int num_threads_;
  std::vector<float> a_;
  std::vector<std::vector<float>> c_;
  double best_flops_per_s_ = 0;
};

// c = a + s * b over arrays beyond the caches, counting three streams (McCalpin's triad).
class TriadPeak {
 public:
  explicit TriadPeak(int num_threads)
      : num_threads_(num_threads), a_(Values(kSize)), b_(Values(kSize)), c_(kSize) {}

  void Measure() {
    const double seconds = SecondsOf(num_threads_, [&] {
      OnThreads(num_threads_, [&](int thread) {
        const int64_t end = kSize * (thread + 1) / num_threads_;
        for (int64_t i = kSize * thread / num_threads_; i < end; ++i) c_[i] = a_[i] + 3 * b_[i];
      });
    });
    best_bytes_per_s_ = std::max(best_bytes_per_s_, 12.0 * kSize / seconds);
  }
  double best_bytes_per_s() const { return best_bytes_per_s_; }

 private:
  static constexpr int64_t kSize = int64_t{1} << 24;
  int num_threads_;
  std::vector<float> a_, b_, c_;
  double best_bytes_per_s_ = 0;
};

template <typename Run>
void CompareWithSgemm(benchmark::State& state, int num_threads, double flops, const Run& run) {
  SgemmPeak peak(num_threads);
  double best_s = std::numeric_limits<double>::infinity();
  for ([[maybe_unused]] auto _ : state) {
    const double seconds = SecondsOf(num_threads, run);
    state.SetIterationTime(seconds);
    best_s = std::min(best_s, seconds);
    peak.Measure();
  }
  state.counters["GFLOP/s"] = flops / best_s * 1e-9;
  state.counters["sgemm"] = peak.best_flops_per_s() * 1e-9;
  state.counters["share"] = flops / best_s / peak.best_flops_per_s();
}

template <typename Run>
void CompareWithTriad(benchmark::State& state, int num_threads, double bytes, const Run& run) {
  TriadPeak peak(num_threads);
  double best_s = std::numeric_limits<double>::infinity();
  for ([[maybe_unused]] auto _ : state) {
    const double seconds = SecondsOf(num_threads, run);
    state.SetIterationTime(seconds);
    best_s = std::min(best_s, seconds);
    peak.Measure();
  }
  state.counters["best_ms"] = best_s * 1e3;
  state.counters["GB/s"] = bytes / best_s * 1e-9;
  state.counters["triad"] = peak.best_bytes_per_s() * 1e-9;
  state.counters["share"] = bytes / best_s / peak.best_bytes_per_s();
}

// Memory of the backend, as the engine has it.
class Buffer {
 public:
  Buffer(Backend& backend, int64_t n) : backend_(backend), n_(n) {
    memory_ = static_cast<float*>(backend.Allocate(n * sizeof(float)));
    const std::vector<float> values = Values(std::min<int64_t>(n, 1 << 20));
    for (int64_t i = 0; i < n; i += static_cast<int64_t>(values.size())) {
      std::copy_n(values.data(), std::min<int64_t>(values.size(), n - i), memory_ + i);
    }
  }
  ~Buffer() { backend_.Free(memory_, n_ * sizeof(float)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  operator Array() const { return memory_; }       // NOLINT
  operator ConstArray() const { return memory_; }  // NOLINT
  Array At(int64_t offset) const { return memory_ + offset; }

 private:
  Backend& backend_;
  int64_t n_;
  float* memory_;
};

}  // namespace tessera::kernels
