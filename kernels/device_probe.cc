#include "kernels/device_probe.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "cost_model/base/float16.h"
#include "kernels/probe_args.h"

namespace tessera::kernels {
namespace {

// The bits of a number in [-1, 1) of a type.
uint32_t RandomBits(base::DType dtype, std::mt19937& generator) {
  const float value = std::uniform_real_distribution<float>(-1, 1)(generator);
  if (dtype == base::DType::kBFloat16) return base::FloatToBFloat16(value);
  if (dtype == base::DType::kFloat16) return base::FloatToFloat16(value);
  return std::bit_cast<uint32_t>(value);
}

// Random numbers on the device: products of zeros run faster than any other.
class RandomArray {
 public:
  RandomArray(Backend& backend, base::DType dtype, int64_t n)
      : backend_(backend), dtype_(dtype), num_bytes_(n * base::SizeBytes(dtype)) {
    memory_ = static_cast<std::byte*>(backend.Allocate(num_bytes_));
    constexpr int64_t kBlockElements = int64_t{1} << 20;
    const int64_t size = base::SizeBytes(dtype);
    std::vector<std::byte> block(std::min(n, kBlockElements) * size);
    std::mt19937 generator(1);
    for (size_t at = 0; at < block.size(); at += size) {
      const uint32_t bits = RandomBits(dtype, generator);
      std::memcpy(&block[at], &bits, size);
    }
    for (size_t at = 0; at < num_bytes_; at += block.size()) {
      backend.CopyToDevice(memory_ + at, block.data(), std::min(block.size(), num_bytes_ - at));
    }
  }
  ~RandomArray() { backend_.Free(memory_, num_bytes_); }
  RandomArray(const RandomArray&) = delete;
  RandomArray& operator=(const RandomArray&) = delete;

  operator Array() const { return {memory_, dtype_}; }       // NOLINT
  operator ConstArray() const { return {memory_, dtype_}; }  // NOLINT
  Array From(int64_t element) const { return Array(*this).At(element); }

 private:
  Backend& backend_;
  base::DType dtype_;
  size_t num_bytes_;
  std::byte* memory_;
};

// Best time of one run of operation(), of `num_repetitions` after one that warms up.
template <typename Operation>
double BestSeconds(Backend& backend, int num_repetitions, const Operation& operation) {
  operation();
  backend.TakeMarks();
  backend.Mark();
  for (int i = 0; i < num_repetitions; ++i) {
    operation();
    backend.Mark();
  }
  const std::vector<double> marks_s = backend.TakeMarks();
  double best_s = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < marks_s.size(); ++i) {
    best_s = std::min(best_s, marks_s[i] - marks_s[i - 1]);
  }
  return best_s;
}

RatePoint ProbeMatMul(Backend& backend, base::DType dtype, int64_t size, int num_repetitions) {
  const RandomArray a(backend, dtype, size * size), b(backend, dtype, size * size);
  const RandomArray c(backend, dtype, size * size);
  const MatMulArgs args = SquareMatMul(a, b, c, size);
  const double flops = 2.0 * std::pow(static_cast<double>(size), 3);
  return {flops, flops / BestSeconds(backend, num_repetitions, [&] { backend.MatMul(args); })};
}

RatePoint ProbeAttention(Backend& backend, base::DType dtype, int64_t sequence,
                         int num_repetitions) {
  constexpr int64_t kNumHeads = 16, kHeadDim = 128;
  constexpr int64_t kWidth = kNumHeads * kHeadDim;
  const RandomArray qkv(backend, dtype, sequence * 3 * kWidth);
  const RandomArray dqkv(backend, dtype, sequence * 3 * kWidth);
  const RandomArray out(backend, dtype, sequence * kWidth), dout(backend, dtype, sequence * kWidth);
  const RandomArray stats(backend, base::DType::kFloat32, sequence * kNumHeads);
  const PackedAttention attention =
      MakePackedAttention({.qkv = qkv, .dqkv = dqkv, .out = out, .dout = dout, .stats = stats},
                          sequence, kNumHeads, kHeadDim);
  const double seconds = BestSeconds(backend, num_repetitions, [&] {
    backend.AttentionForward(attention.forward);
    backend.AttentionBackward(attention.backward);
  });
  // A forward and a backward call are two operations, of half the FLOPs on average.
  const double flops = PackedAttentionFlops(sequence, kNumHeads, kHeadDim);
  return {flops / 2, flops / seconds};
}

RatePoint ProbePass(Backend& backend, base::DType dtype, int64_t n, int num_repetitions) {
  const RandomArray x(backend, dtype, n), residual(backend, dtype, n), y(backend, dtype, n);
  const double bytes = 3.0 * static_cast<double>(n * base::SizeBytes(dtype));
  const double seconds = BestSeconds(backend, num_repetitions, [&] {
    backend.ResidualAdd(
        {.x = x, .residual = residual, .y = y, .num_rows = n / 4096, .width = 4096});
  });
  return {bytes, bytes / seconds};
}

double SecondsOf(Backend& backend, const auto& work) {
  backend.Synchronize();
  const auto start = std::chrono::steady_clock::now();
  work();
  backend.Synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

MachineProbe ProbeDevice(Backend& backend, base::DType dtype, const DeviceProbeSizes& sizes) {
  MachineProbe probe{.num_threads = 1};
  for (const int64_t size : sizes.matmul) {
    probe.matmul_flops_per_s.push_back(ProbeMatMul(backend, dtype, size, sizes.num_repetitions));
  }
  for (const int64_t sequence : sizes.attention) {
    probe.attention_flops_per_s.push_back(
        ProbeAttention(backend, dtype, sequence, sizes.num_repetitions));
  }
  for (const int64_t n : sizes.pass) {
    probe.pass_bytes_per_s.push_back(ProbePass(backend, dtype, n, sizes.num_repetitions));
  }
  if (!sizes.pass.empty()) probe.memory_bandwidth_bytes_per_s = probe.pass_bytes_per_s.back().rate;
  const RandomArray x(backend, dtype, 1);
  probe.op_overhead_s = BestSeconds(backend, 3,
                                    [&] {
                                      for (int i = 0; i < sizes.num_small_operations; ++i) {
                                        backend.Scale(x, 1, 1.0F);
                                      }
                                    }) /
                        sizes.num_small_operations;
  return probe;
}

HostLinkProbe ProbeHostLink(Backend& backend) {
  constexpr int64_t kLargeBytes = int64_t{64} << 20;
  constexpr int kNumSmall = 50;
  std::vector<std::byte> host(kLargeBytes);
  const RandomArray device(backend, base::DType::kUInt8, kLargeBytes);
  void* const memory = Array(device).data;
  const auto both_ways = [&](int64_t num_bytes) {
    backend.CopyToDevice(memory, host.data(), num_bytes);
    backend.CopyToHost(host.data(), memory, num_bytes);
  };
  both_ways(kLargeBytes);
  const double large_s = SecondsOf(backend, [&] { both_ways(kLargeBytes); });
  const double small_s = SecondsOf(backend, [&] {
    for (int i = 0; i < kNumSmall; ++i) both_ways(1);
  });
  return {.bandwidth_bytes_per_s = 2.0 * kLargeBytes / large_s,
          .latency_s = small_s / (2 * kNumSmall)};
}

}  // namespace tessera::kernels
