// One process group of the thread backend: what its ranks share.
//
// A collective is posted by every rank (its buffers become visible to the others) and waited for
// later. Once all ranks have posted it, its fragments are free to be run by whoever waits for it,
// so it completes without the help of a rank that is still busy elsewhere: a rank that has nothing
// to do takes over the work of one that computes, and no further thread competes for the cores. A
// small collective is run at once by the last rank to post it, which costs one hand-over of cache
// lines instead of two.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/comm/event_count.h"
#include "engine/comm/thread_collective.h"
#include "engine/comm/thread_mailbox.h"
#include "engine/comm/thread_world_state.h"

namespace tessera::engine {

// What a rank asks of Split, as the `input` of a kSplit collective, and the answer.
struct SplitRequest {
  int color = 0;
  int key = 0;
  std::string name;
  ThreadGroup* group = nullptr;  // null for a negative color
  int rank = 0;                  // in that group
};

class ThreadGroup {
 public:
  ThreadGroup(ThreadWorldState& world, std::string name, std::vector<int> world_ranks);

  const std::string& name() const { return name_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return world_ranks_[rank]; }
  ThreadWorldState& world() { return world_; }
  Mailbox& mailbox(int source, int target) { return mailboxes_[source * size() + target]; }
  // "rank 3 of tp{2,3}": by its rank in the world.
  std::string Describe(int rank) const;

  // Posts the rank's share of its collective `number`, counted from 1 on every rank. Throws
  // base::CommError when the ranks' headers differ.
  void Post(int rank, int64_t number, const CollectiveHeader& header, const void* input,
            void* output);
  // Returns when the collective is done and the rank's buffers are its own again. Throws
  // base::CommError on a timeout, on an abort or when a peer has ended without posting.
  void Wait(int rank, int64_t number);
  // Gives up a collective: when this returns, nobody touches the rank's buffers any more.
  void Abandon(int rank, int64_t number);

  // Wakes all ranks that wait in this group.
  void Notify();

 private:
  // One rank's part of a posted collective.
  struct alignas(64) Share {
    CollectiveHeader header;
    const void* input = nullptr;
    void* output = nullptr;
    std::atomic<int64_t> number{0};
  };
  // A collective under way. Slots are used in turn; `done` tells which collective a slot has
  // finished last, so a late waiter needs nothing else of a slot that is in use again.
  struct Slot {
    std::vector<Share> shares;                     // [size()]
    alignas(64) std::atomic<uint64_t> arrived{0};  // posts since the start, and kCancelled
    std::atomic<uint64_t> claim{0};  // number << kFragmentBits | fragments not yet taken
    std::atomic<int64_t> num_finished{0};
    Collective collective;
    int64_t num_fragments = 0;
    alignas(64) std::atomic<int64_t> done{0};
  };
  // The collective will not run: a rank gave it up before all had posted.
  static constexpr uint64_t kCancelled = uint64_t{1} << 63;
  static constexpr int kFragmentBits = 24;
  static constexpr int64_t kMaxFragments = (int64_t{1} << kFragmentBits) - 1;
  // Collectives that a rank can have outstanding before posting waits for the oldest.
  static constexpr int kNumSlots = 64;

  Slot& SlotOf(int64_t number) { return slots_[number % kNumSlots]; }
  // Whether all ranks have posted and none had given up: the collective is bound to complete.
  bool AllPosted(int64_t number, const Slot& slot) const;
  bool IsMissing(int rank, int64_t number, const Slot& slot) const;
  // In the world's numbers: the ranks that have not posted, and those of them that never will.
  std::vector<int> MissingRanks(int64_t number, const Slot& slot) const;
  std::vector<int> EndedRanks(int64_t number, const Slot& slot) const;
  // "rank 3 of tp{2,3}: all_reduce #17": an operation that this rank has posted.
  std::string DescribeOp(int rank, int64_t number);

  // For the last rank to post.
  void StartCollective(int rank, int64_t number, Slot& slot);
  // Empty, or how the ranks' headers differ.
  std::string Mismatch(int64_t number, const Slot& slot) const;
  void RunSplit(const Slot& slot);
  void Complete(int64_t number, Slot& slot);

  // Fragments that nobody has taken, as Slot::claim tells.
  static int64_t FragmentsLeft(int64_t number, uint64_t claim);
  void RunFragments(int64_t number, Slot& slot);
  WaitResult AwaitProgress(int64_t number, Slot& slot, EventCount::Clock::time_point deadline);
  // Cancels the collective unless all ranks have posted it; returns whether it is cancelled.
  bool Cancel(int64_t number, Slot& slot);
  // Throws, unless all ranks have posted in the meantime.
  void GiveUp(int rank, int64_t number, Slot& slot, WaitResult why);

  ThreadWorldState& world_;
  const std::string name_;
  const std::vector<int> world_ranks_;
  std::vector<Slot> slots_;         // [kNumSlots]
  std::vector<Mailbox> mailboxes_;  // [size()][size()]: source, target
  EventCount event_;
};

}  // namespace tessera::engine
