#include "kernels/cuda/pinned_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/cuda_error.h"

namespace tessera::kernels::cuda {
namespace {

// Long copies go in pieces, so that one is filled while another travels.
constexpr size_t kPiecesPerRing = 4;
constexpr size_t kAlignment = 64;

}  // namespace

size_t PinnedRing::piece_bytes() const { return memory_.num_bytes() / kPiecesPerRing; }

void PinnedRing::CopyToDevice(void* device, const void* host, size_t num_bytes,
                              cudaStream_t stream) {
  for (size_t done = 0; done < num_bytes;) {
    const size_t bytes = std::min(piece_bytes(), num_bytes - done);
    const size_t begin = Reserve(bytes);
    std::memcpy(memory_.data() + begin, static_cast<const std::byte*>(host) + done, bytes);
    CheckCuda(cudaMemcpyAsync(static_cast<std::byte*>(device) + done, memory_.data() + begin, bytes,
                              cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync to the device");
    Follow(begin, bytes, nullptr, stream);
    done += bytes;
  }
}

void PinnedRing::CopyToHost(void* host, const void* device, size_t num_bytes, cudaStream_t stream) {
  try {
    for (size_t done = 0; done < num_bytes;) {
      const size_t bytes = std::min(piece_bytes(), num_bytes - done);
      const size_t begin = Reserve(bytes);
      CheckCuda(
          cudaMemcpyAsync(memory_.data() + begin, static_cast<const std::byte*>(device) + done,
                          bytes, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync to the host");
      Follow(begin, bytes, static_cast<std::byte*>(host) + done, stream);
      done += bytes;
    }
    while (!in_flight_.empty()) ReleaseOldest();
  } catch (...) {
    for (InFlight& copy : in_flight_) copy.to = nullptr;  // the caller's memory goes
    throw;
  }
}

size_t PinnedRing::Reserve(size_t num_bytes) {
  size_t begin = (head_ + kAlignment - 1) / kAlignment * kAlignment;
  if (begin + num_bytes > memory_.num_bytes()) {
    // The copies between here and the end are the oldest: they go before the ring starts anew.
    while (!in_flight_.empty() && in_flight_.front().begin >= head_) ReleaseOldest();
    begin = 0;
  }
  const size_t end = begin + num_bytes;
  const auto overlaps = [&](const InFlight& copy) { return copy.begin < end && begin < copy.end; };
  while (!in_flight_.empty() && overlaps(in_flight_.front())) ReleaseOldest();
  head_ = end;
  return begin;
}

void PinnedRing::Follow(size_t begin, size_t num_bytes, void* to, cudaStream_t stream) {
  if (free_events_.empty()) free_events_.push_back(std::make_unique<Event>());
  in_flight_.push_back({begin, begin + num_bytes, std::move(free_events_.back()), to});
  free_events_.pop_back();
  in_flight_.back().copied->Record(stream);
}

void PinnedRing::ReleaseOldest() {
  InFlight& oldest = in_flight_.front();
  oldest.copied->Synchronize();
  if (oldest.to != nullptr) {
    std::memcpy(oldest.to, memory_.data() + oldest.begin, oldest.end - oldest.begin);
  }
  free_events_.push_back(std::move(oldest.copied));
  in_flight_.pop_front();
}

}  // namespace tessera::kernels::cuda
