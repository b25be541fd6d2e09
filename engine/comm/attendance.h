// Who has come to a meeting of processes, and from which hosts.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/launch_environment.h"
#include "engine/comm/tcp_socket.h"

namespace tessera::engine {

// How long a rank that has come to a meeting waits: a little beyond its own deadline, as rank 0
// says at its own who is missing.
inline Deadline WithAnswerGrace(Deadline deadline) {
  return deadline + std::chrono::milliseconds(1500);
}

// The name that this host has given itself; "an unnamed host" where it has none.
std::string OwnHostName();

// The roll of rank 0, which is there from the start.
class Attendance {
 public:
  explicit Attendance(const ProcessRank& rank_zero)
      : launcher_(rank_zero.launcher), hosts_(static_cast<size_t>(rank_zero.num_ranks)) {
    hosts_.front() = OwnHostName();
  }

  int num_ranks() const { return static_cast<int>(hosts_.size()); }
  void Add(int rank, const std::string& host) { hosts_.at(static_cast<size_t>(rank)) = host; }
  bool has(int rank) const { return hosts_.at(static_cast<size_t>(rank)).has_value(); }

  // "ranks 2, 5-7 of 8 did not come; on node-1 are ranks 0, 1, on node-2 ranks 3, 4 (started by
  // torchrun)".
  std::string WhoIsMissing() const;

 private:
  std::string launcher_;
  std::vector<std::optional<std::string>> hosts_;  // by rank; of those that have come
};

}  // namespace tessera::engine
