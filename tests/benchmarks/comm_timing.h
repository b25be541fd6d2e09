// Times what training asks of a communication library, whichever it is. Knows nothing of the
// project, so that a program of another library can use it.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

// One rank's end of all ranks. Counts are fp32 elements of the larger buffer.
class TimedLink {
 public:
  virtual ~TimedLink() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void Barrier() = 0;
  virtual void AllReduce(const float* input, float* output, int64_t count) = 0;
  // `input` may be changed.
  virtual void ReduceScatter(float* input, float* output, int64_t count) = 0;
  virtual void AllGather(const float* input, float* output, int64_t count) = 0;
  virtual void Send(const float* data, int64_t count, int peer) = 0;
  virtual void Receive(float* data, int64_t count, int peer) = 0;
};

enum class TimedOp : uint8_t { kAllReduce, kReduceScatter, kAllGather, kSendReceive };
inline constexpr TimedOp kTimedOps[] = {TimedOp::kAllReduce, TimedOp::kReduceScatter,
                                        TimedOp::kAllGather, TimedOp::kSendReceive};
inline const char* NameOf(TimedOp op) {
  static constexpr const char* kNames[] = {"all-reduce", "reduce-scatter", "all-gather",
                                           "send/recv"};
  return kNames[static_cast<int>(op)];
}

inline constexpr int64_t kTimedBytes[] = {1 << 10, 16 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20};

// A message goes from each even rank to the next one and comes back: two of them, one way.
inline void RunTimed(TimedLink& link, TimedOp op, std::vector<float>& a, std::vector<float>& b,
                     int64_t count) {
  switch (op) {
    case TimedOp::kAllReduce:
      return link.AllReduce(a.data(), b.data(), count);
    case TimedOp::kReduceScatter:
      return link.ReduceScatter(a.data(), b.data(), count);
    case TimedOp::kAllGather:
      return link.AllGather(a.data(), b.data(), count);
    case TimedOp::kSendReceive: {
      const int peer = link.rank() ^ 1;
      if (link.rank() % 2 == 0) {
        link.Send(a.data(), count, peer);
        link.Receive(b.data(), count, peer);
      } else {
        link.Receive(b.data(), count, peer);
        link.Send(a.data(), count, peer);
      }
      return;
    }
  }
}

// Runs time(rank, folder) in a process for each rank, in a folder of theirs; returns how many
// failed.
template <typename Time>
int RunTimedProcesses(int num_ranks, const Time& time) {
  std::string folder = (std::filesystem::temp_directory_path() / "tessera_comm_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return num_ranks;
  for (int rank = 0; rank < num_ranks; ++rank) {
    if (fork() != 0) continue;
    int code = 0;
    try {
      time(rank, folder);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      code = 1;
    }
    std::fflush(stdout);
    _exit(code);
  }
  int num_failed = 0;
  for (int i = 0; i < num_ranks; ++i) {
    int status = 0;
    wait(&status);
    if (status != 0) ++num_failed;
  }
  std::filesystem::remove_all(folder);
  return num_failed;
}

// What the first call must leave: exits where it does not, as a fast library that is wrong is no
// match.
inline void CheckTimed(TimedLink& link, TimedOp op, const std::vector<float>& b, int64_t count) {
  const int size = link.size();
  const int64_t num_results =
      op == TimedOp::kReduceScatter ? std::max<int64_t>(count / size, 1) : count;
  for (int64_t i = 0; i < num_results; ++i) {
    float expected = static_cast<float>(size * (size + 1)) / 2;  // ranks hold rank + 1
    if (op == TimedOp::kAllGather) expected = static_cast<float>(i / (count / size) + 1);
    if (op == TimedOp::kSendReceive) expected = static_cast<float>((link.rank() ^ 1) + 1);
    if (b[static_cast<size_t>(i)] == expected) continue;
    std::fprintf(stderr, "%s: element %lld of rank %d is %g instead of %g\n", NameOf(op),
                 static_cast<long long>(i), link.rank(), b[static_cast<size_t>(i)], expected);
    std::exit(1);
  }
}

// Rank 0 prints a line for each operation and size: library, ranks, operation, bytes, and the
// shortest time of a call among some batches. [s]; of send/recv one way.
inline void TimeAll(TimedLink& link, const std::string& library) {
  using Clock = std::chrono::steady_clock;
  constexpr int kNumBatches = 5;
  constexpr int64_t kBatchBytes = 8 << 20;
  for (const TimedOp op : kTimedOps) {
    for (const int64_t num_bytes : kTimedBytes) {
      const int64_t count = num_bytes / static_cast<int64_t>(sizeof(float));
      const int repeats = static_cast<int>(std::clamp<int64_t>(kBatchBytes / num_bytes, 1, 200));
      std::vector<float> a(static_cast<size_t>(count), static_cast<float>(link.rank() + 1));
      std::vector<float> b(static_cast<size_t>(count));
      RunTimed(link, op, a, b, count);
      CheckTimed(link, op, b, count);
      double shortest_s = 1e9;
      for (int batch = 0; batch <= kNumBatches; ++batch) {
        link.Barrier();
        const Clock::time_point start = Clock::now();
        for (int i = 0; i < repeats; ++i) RunTimed(link, op, a, b, count);
        link.Barrier();
        const std::chrono::duration<double> elapsed = Clock::now() - start;
        if (batch > 0) shortest_s = std::min(shortest_s, elapsed.count() / repeats);
      }
      if (op == TimedOp::kSendReceive) shortest_s /= 2;
      if (link.rank() != 0) continue;
      std::printf("%s\t%d\t%s\t%lld\t%.9f\n", library.c_str(), link.size(), NameOf(op),
                  static_cast<long long>(num_bytes), shortest_s);
      std::fflush(stdout);
    }
  }
}
