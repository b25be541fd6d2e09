#include "tests/cuda_emulation/runtime/stream_scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "tests/cuda_emulation/runtime/device.h"
#include "tests/cuda_emulation/runtime/errors.h"
#include "tests/cuda_emulation/runtime/host_thread.h"

namespace tessera::cuda_emulation {
namespace {

// How often a thread looks again whether another's work has made its own possible, should nobody
// have called NotifyProgress.
constexpr auto kRetryInterval = std::chrono::milliseconds(1);

bool Contains(const StreamSet& set, const CUstream_st& stream) {
  return set.is_all || stream.owner == set.owner || stream.device == set.device;
}

}  // namespace

// Never destroyed: threads may still use streams while the program ends.
StreamScheduler& StreamScheduler::Get() {
  static auto* scheduler = new StreamScheduler;
  return *scheduler;
}

StreamScheduler::StreamScheduler() {
  const char* order = std::getenv("TESSERA_CUDA_ORDER");
  const char* seed = std::getenv("TESSERA_CUDA_SEED");
  const std::string name = order != nullptr ? order : "eager";
  if (name != "eager" && name != "adversarial") {
    throw std::invalid_argument("TESSERA_CUDA_ORDER: found " + name +
                                ", expected eager or adversarial");
  }
  SetOrder(name == "eager" ? StreamOrder::kEager : StreamOrder::kAdversarial,
           seed != nullptr ? std::strtoull(seed, nullptr, 10) : 0);
}

void StreamScheduler::SetOrder(StreamOrder order, uint64_t seed) {
  const Lock lock(mutex_);
  order_ = order;
  seed_ = seed;
  random_ = seed;
}

void StreamScheduler::SetTimeout(double timeout_s) {
  const Lock lock(mutex_);
  timeout_s_ = timeout_s;
}

cudaError_t StreamScheduler::Enqueue(cudaStream_t stream,
                                     std::unique_ptr<StreamOperation> operation) {
  Lock lock(mutex_);
  if (!streams_.contains(stream)) {
    lock.unlock();
    return Refuse(cudaErrorInvalidResourceHandle, operation->Describe() + ": no such stream");
  }
  if (HasFailed(stream->device)) return cudaErrorLaunchFailure;
  if (stream->capture != nullptr) {
    AddNode(stream, std::move(operation));
    return cudaSuccess;
  }
  stream->queue.push_back({.operation = std::move(operation), .issue = ++num_issued_});
  if (order_ == StreamOrder::kEager) {
    const StreamSet set{.owner = stream->owner};
    for (cudaStream_t next; (next = Choose(set)) != nullptr;) RunHead(lock, next);
  }
  return cudaSuccess;
}

// A stream of the set whose head may be able to run, or null.
cudaStream_t StreamScheduler::Choose(const StreamSet& set) {
  std::vector<cudaStream_t> runnable;
  for (cudaStream_t stream : streams_) {
    if (Contains(set, *stream) && !stream->queue.empty() && !stream->is_running &&
        stream->tried_at != progress_) {
      runnable.push_back(stream);
    }
  }
  return runnable.empty() ? nullptr : ChooseAmong(runnable);
}

cudaStream_t StreamScheduler::ChooseAmong(const std::vector<cudaStream_t>& runnable) {
  const auto is_earlier_head = [](cudaStream_t a, cudaStream_t b) {
    return a->queue.front().issue < b->queue.front().issue;
  };
  if (order_ == StreamOrder::kEager) {
    return *std::min_element(runnable.begin(), runnable.end(), is_earlier_head);
  }
  if (seed_ == 0) return *std::max_element(runnable.begin(), runnable.end(), is_earlier_head);
  if (seed_ == 1) {
    return *std::max_element(runnable.begin(), runnable.end(), [](cudaStream_t a, cudaStream_t b) {
      return a->queue.back().issue < b->queue.back().issue;
    });
  }
  // Draws in the order of issue: the addresses of streams differ from run to run.
  std::vector<cudaStream_t> ordered = runnable;
  std::sort(ordered.begin(), ordered.end(), is_earlier_head);
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return ordered[(random_ >> 33) % ordered.size()];
}

// Tries the head of a stream without the lock. Whether it has run.
bool StreamScheduler::RunHead(Lock& lock, cudaStream_t stream) {
  StreamOperation& operation = *stream->queue.front().operation;
  const uint64_t tried_at = progress_;
  stream->is_running = true;
  lock.unlock();
  bool has_run = false;
  std::string fault;
  try {
    has_run = operation.TryRun();
  } catch (const std::exception& error) {
    fault = error.what();
  }
  lock.lock();
  stream->is_running = false;
  Operations finished;
  if (!fault.empty()) {
    FailAndClear(stream->device, fault, &finished);
  } else if (has_run) {
    finished.push_back(std::move(stream->queue.front().operation));
    stream->queue.pop_front();
  } else {
    stream->tried_at = tried_at;
    return false;
  }
  ++progress_;
  // Other threads look again by themselves; who made their work ready has called NotifyProgress.
  if (stream->owner != CurrentHostThread()) moved_.notify_all();
  lock.unlock();  // what an operation does when it goes may need the lock
  finished.clear();
  lock.lock();
  return true;
}

// Marks a device as failed and takes what is queued in its streams.
void StreamScheduler::FailAndClear(int device, const std::string& fault, Operations* dropped) {
  FailDevice(device, fault);
  for (cudaStream_t stream : streams_) {
    if (stream->device != device || stream->is_running) continue;
    for (QueuedOperation& queued : stream->queue) dropped->push_back(std::move(queued.operation));
    stream->queue.clear();
  }
}

void StreamScheduler::RunUntil(const StreamSet& set, const std::function<bool()>& is_done,
                               const char* call) {
  Lock lock(mutex_);
  Clock::time_point last_progress = Clock::now();
  // A device goes on while its host thread does something else, and others may wait for that: who
  // has nothing of his own to run, for a while, runs what he finds.
  bool is_starved = false;
  while (!is_done()) {
    cudaStream_t next = Choose(set);
    const bool is_own = next != nullptr;
    if (!is_own && is_starved) next = Choose({.is_all = true});
    if (next != nullptr) {
      if (RunHead(lock, next)) {
        last_progress = Clock::now();
        is_starved = !is_own;
      }
      continue;
    }
    is_starved = !SleepUntilProgress(lock);
    if (!is_starved) {
      last_progress = Clock::now();
    } else if (std::chrono::duration<double>(Clock::now() - last_progress).count() > timeout_s_) {
      GiveUp(lock, set, call);
    }
  }
}

// Fails the devices whose streams are stuck.
void StreamScheduler::GiveUp(Lock& lock, const StreamSet& set, const char* call) {
  const std::string fault = std::string(call) + ": nothing moves;" + DescribeHeads();
  Operations dropped;
  for (cudaStream_t stream : streams_) {
    const bool is_stuck = Contains(set, *stream) && !stream->queue.empty();
    if (is_stuck) FailAndClear(stream->device, fault, &dropped);
  }
  lock.unlock();
  dropped.clear();
  lock.lock();
}

// Sleeps until other threads have done something, or until it is time to look again. Whether they
// have.
bool StreamScheduler::SleepUntilProgress(Lock& lock) {
  const uint64_t before = progress_;
  const bool has_moved = moved_.wait_for(lock, kRetryInterval, [&] { return progress_ != before; });
  if (!has_moved) {
    for (cudaStream_t stream : streams_) stream->tried_at = ~0ull;
  }
  return has_moved;
}

void StreamScheduler::RunOne(const StreamSet& set) {
  Lock lock(mutex_);
  for (cudaStream_t next; (next = Choose(set)) != nullptr;) {
    if (RunHead(lock, next)) return;
  }
  for (cudaStream_t stream : streams_) stream->tried_at = ~0ull;
}

void StreamScheduler::Notify() {
  const Lock lock(mutex_);
  ++progress_;
  moved_.notify_all();
}

void StreamScheduler::DropAll() {
  Operations dropped;
  const Lock lock(mutex_);
  for (cudaStream_t stream : streams_) {
    if (stream->is_running) continue;
    for (QueuedOperation& queued : stream->queue) dropped.push_back(std::move(queued.operation));
    stream->queue.clear();
    stream->capture = nullptr;
  }
}

std::string StreamScheduler::DescribeHeads() const {
  std::string text;
  for (cudaStream_t stream : streams_) {
    if (stream->queue.empty()) continue;
    text += " a stream of device " + std::to_string(stream->device) + " is at " +
            stream->queue.front().operation->Describe() + ", " +
            std::to_string(stream->queue.size() - 1) + " more behind it;";
  }
  return text;
}

}  // namespace tessera::cuda_emulation
