#include "tests/cuda_emulation/nccl/clique.h"

#include "tests/cuda_emulation/nccl/data_movement.h"
#include "tests/cuda_emulation/runtime/device_memory.h"
#include "tests/cuda_emulation/runtime/fault.h"

namespace tessera::cuda_emulation::nccl {
namespace {

MeetingKey ChannelOf(int rank, const NcclCall& call) {
  if (call.kind == NcclCallKind::kSend) return {rank, call.peer, 0};
  if (call.kind == NcclCallKind::kReceive) return {call.peer, rank, 0};
  return {};
}

std::shared_ptr<Meeting> MakeMeeting(const MeetingKey& key, int num_ranks) {
  auto meeting = std::make_shared<Meeting>();
  if (key.source >= 0) {
    meeting->participants = {{.rank = key.source}, {.rank = key.destination}};
    return meeting;
  }
  for (int rank = 0; rank < num_ranks; ++rank) meeting->participants.push_back({.rank = rank});
  return meeting;
}

size_t ParticipantOf(int rank, const NcclCall& call) {
  if (call.is_collective()) return static_cast<size_t>(rank);
  return call.kind == NcclCallKind::kSend ? 0 : 1;
}

// A buffer may have been freed between the call and its turn in the stream.
void CheckAlive(const Meeting::Participant& participant, int num_ranks) {
  for (const BufferRange& range : RangesOf(*participant.call, participant.rank, num_ranks)) {
    const auto num_bytes = static_cast<size_t>(range.num_bytes);
    if (!IsDeviceMemory(range.begin, num_bytes)) {
      throw Fault(Describe(*participant.call) + " on rank " + std::to_string(participant.rank) +
                  ": its " + range.name + " buffer was freed before the stream reached it: " +
                  DescribeMemory(range.begin, num_bytes));
    }
  }
}

void Run(const Meeting& meeting, int num_ranks) {
  std::vector<NcclCall> calls;
  for (const Meeting::Participant& participant : meeting.participants) {
    CheckAlive(participant, num_ranks);
    calls.push_back(*participant.call);
  }
  if (calls[0].is_collective()) {
    RunCollective(calls);
  } else {
    RunTransfer(calls[0], calls[1]);
  }
}

}  // namespace

Place Clique::Issue(RankState& rank, const NcclCall& call) {
  MeetingKey key = ChannelOf(rank.rank, call);
  const size_t participant = ParticipantOf(rank.rank, call);
  key.index = rank.num_calls[{key, participant}]++;
  std::shared_ptr<Meeting>& meeting = meetings_[key];
  if (meeting == nullptr) meeting = MakeMeeting(key, num_ranks_);
  const Place place{key, meeting, participant};
  for (size_t i = 0; i < meeting->participants.size(); ++i) {
    const Meeting::Participant& other = meeting->participants[i];
    if (i == participant || !other.call || failure_) continue;
    if (const auto difference = Difference(call, *other.call)) {
      failure_ = "communicator '" + name_ + "': rank " + std::to_string(rank.rank) + " calls " +
                 Describe(call) + " where rank " + std::to_string(other.rank) + " calls " +
                 Describe(*other.call) + ": " + *difference + " (" +
                 (key.source < 0 ? "collective" : "message") + " number " +
                 std::to_string(key.index) + (key.source < 0 ? "" : " between the two") + ")";
    }
  }
  meeting->participants[participant].call = call;
  return place;
}

bool Clique::Arrive(const Place& place, bool* has_run) {
  Meeting& meeting = *place.meeting;
  meeting.participants[place.participant].has_arrived = true;
  if (meeting.is_done) return true;
  for (const Meeting::Participant& participant : meeting.participants) {
    if (!participant.has_arrived || aborted_ranks_.contains(participant.rank)) return false;
  }
  Run(meeting, num_ranks_);
  meeting.is_done = true;
  meetings_.erase(place.key);
  *has_run = true;
  return true;
}

void Clique::Abort(RankState& rank) {
  rank.is_aborted = true;
  aborted_ranks_.insert(rank.rank);
  condition_.notify_all();  // a split that waits gives up too
}

std::string Clique::DescribeRank(int rank) const {
  const std::string text = "rank " + std::to_string(rank);
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return text + " (has left the communicator)";
  const RankState& state = *found->second;
  return text + " (has issued " + std::to_string(state.num_issued) + " operations, completed " +
         std::to_string(state.num_completed) + ")";
}

}  // namespace tessera::cuda_emulation::nccl
