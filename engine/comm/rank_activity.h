// What one rank has called in each of its groups: numbers its operations, remembers the last ones,
// and tells its peers how far it has come. Safe to call from every thread of the rank.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/comm/flight_recorder.h"
#include "engine/comm/rank_progress.h"

namespace tessera::engine {

class RankActivity {
 public:
  // For the operations of a group: returns what the calls below take. A group's record stays when
  // the group goes.
  int AddGroup(const std::string& id, const std::string& name);

  // The rank calls `op`, whose number this sets. Returns what End takes.
  int64_t Begin(int group, CommOp& op);
  void End(int64_t entry);

  void set_step(int64_t step);
  int64_t step() const;  // -1 before the first
  // Without waits, which the communicator knows.
  RankProgress Progress() const;
  bool WriteFlightRecord(const std::string& path, int rank, const std::string& reason) const;

 private:
  struct Group {
    std::string id;
    std::string name;
    // The last ones, whose numbers say how many there were: messages by peer.
    std::deque<CommOp> collectives;
    std::map<int, CommOp> sent;
    std::map<int, CommOp> received;
  };

  mutable std::mutex mutex_;  // of all below
  std::vector<Group> groups_;
  int64_t step_ = -1;
  FlightRecorder recorder_;
};

// Writes the flight record of a failed run's rank into `folder`, nowhere if that is "". Returns
// what the rank's message ends with: " (last operations: PATH)", or "".
std::string RecordFailure(const RankActivity& activity, const std::string& folder, int rank,
                          const std::string& reason);

}  // namespace tessera::engine
