// The last operations of one rank, to be written down when its run fails: what every rank did then
// tells who left the common order.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "engine/comm/comm_op.h"

namespace tessera::engine {

// Not safe to call from several threads at once.
class FlightRecorder {
 public:
  static constexpr int64_t kNumEntries = 256;

  // Of an operation that is called in the step; returns what End takes.
  int64_t Begin(int64_t step, const std::string& group, const CommOp& op);
  void End(int64_t entry);

  // Writes what is there to `path`, oldest first, with `reason` above it. False where the disk
  // refuses.
  bool Write(const std::string& path, int rank, const std::string& reason) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    int64_t number = -1;  // among all operations of the rank
    int64_t step = 0;
    std::string group;
    CommOp op;
    Clock::time_point begin;
    Clock::time_point end;
    bool is_over = false;
  };

  std::array<Entry, kNumEntries> entries_;
  int64_t num_begun_ = 0;
};

// The file of a rank in `folder`.
std::string FlightRecordPath(const std::string& folder, int rank);

}  // namespace tessera::engine
