// What the ranks of one communicator share, and one rank's part of it.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/nccl/call.h"

namespace tessera::cuda_emulation::nccl {

// A collective, or a send with its receive: the calls of its participants that belong together.
struct Meeting {
  struct Participant {
    int rank = 0;
    std::optional<NcclCall> call;  // once issued
    bool has_arrived = false;      // once its stream has reached it
  };
  std::vector<Participant> participants;  // all ranks; or sender, receiver
  bool is_done = false;
};

// Which calls meet: the n-th collective of each rank; the n-th send from one rank to another and
// the n-th receive there from the one.
struct MeetingKey {
  int source = -1;  // -1: a collective
  int destination = -1;
  int64_t index = 0;
  auto operator<=>(const MeetingKey&) const = default;
};

// One round of ncclCommSplit.
struct SplitRound;

class Clique;

// A rank's side of its communicator. Everything but rank, device and clique is guarded by the
// clique's mutex.
struct RankState {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
  int64_t num_issued = 0;     // operations: groups, or single calls outside of groups
  int64_t num_completed = 0;  // they complete in order
  bool is_aborted = false;
  int64_t num_in_graphs = 0;  // captured operations whose graphs live
  std::string last_error;
  int64_t num_splits = 0;
  // Calls so far per channel (a key of index 0) and participant in it: a rank may send to itself.
  std::map<std::pair<MeetingKey, size_t>, int64_t> num_calls;
};

// Where a call stands in its meeting.
struct Place {
  MeetingKey key;
  std::shared_ptr<Meeting> meeting;
  size_t participant = 0;
};

class Clique {
 public:
  Clique(std::string name, int num_ranks) : name_(std::move(name)), num_ranks_(num_ranks) {}

  const std::string& name() const { return name_; }
  int num_ranks() const { return num_ranks_; }
  std::mutex& mutex() { return mutex_; }
  std::condition_variable& condition() { return condition_; }

  // With the mutex held, all of these.

  // Enters a rank's next call into its meeting. Where it differs from another rank's the clique
  // fails, for good.
  Place Issue(RankState& rank, const NcclCall& call);
  // A rank's stream has reached the call: the last to arrive runs it. Returns whether it is done;
  // `*has_run` is set if this made it so.
  bool Arrive(const Place& place, bool* has_run);

  // The rank's operations give up; what others share with it never completes.
  void Abort(RankState& rank);

  const std::optional<std::string>& failure() const { return failure_; }
  std::map<int64_t, std::shared_ptr<SplitRound>>& split_rounds() { return split_rounds_; }

  // "rank 2, which has issued 7 operations and completed 5": for messages about who is missing.
  std::string DescribeRank(int rank) const;
  void Register(RankState* rank) { ranks_[rank->rank] = rank; }
  void Unregister(RankState* rank) { ranks_.erase(rank->rank); }

 private:
  const std::string name_;
  const int num_ranks_;
  std::mutex mutex_;
  std::condition_variable condition_;  // of split rounds
  std::optional<std::string> failure_;
  std::map<MeetingKey, std::shared_ptr<Meeting>> meetings_;  // not done yet
  std::map<int64_t, std::shared_ptr<SplitRound>> split_rounds_;
  std::map<int, RankState*> ranks_;  // alive
  std::set<int> aborted_ranks_;
};

}  // namespace tessera::cuda_emulation::nccl
