#include "engine/comm/thread_group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"

namespace tessera::engine {
namespace {

// Up to this size the last rank to post does all the work: less than waking the others costs.
constexpr int64_t kMaxImmediateBytes = 16 * 1024;

// "rank 2 has", "ranks 2, 5 have"
std::string RanksHave(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += base::Concat(i == 0 ? "" : ", ", ranks[i]);
  return text + (ranks.size() == 1 ? " has" : " have");
}

}  // namespace

ThreadGroup::ThreadGroup(ThreadWorldState& world, std::string name, std::vector<int> world_ranks)
    : world_(world),
      name_(std::move(name)),
      world_ranks_(std::move(world_ranks)),
      slots_(kNumSlots),
      mailboxes_(world_ranks_.size() * world_ranks_.size()) {
  for (Slot& slot : slots_) {
    slot.shares = std::vector<Share>(world_ranks_.size());
    slot.collective.inputs.resize(world_ranks_.size());
    slot.collective.outputs.resize(world_ranks_.size());
  }
}

std::string ThreadGroup::Describe(int rank) const {
  return base::Concat("rank ", world_rank(rank), " of ", name_);
}

void ThreadGroup::Post(int rank, int64_t number, const CollectiveHeader& header, const void* input,
                       void* output) {
  TESSERA_CHECK(NumFragments(header, size()) <= kMaxFragments, ToString(header));
  Slot& slot = SlotOf(number);
  const int64_t previous = number - kNumSlots;
  if (previous > 0 && slot.done.load(std::memory_order_acquire) < previous) Wait(rank, previous);
  Share& share = slot.shares[rank];
  share.header = header;
  share.input = input;
  share.output = output;
  share.number.store(number, std::memory_order_release);
  if (world_.aborted()) world_.ThrowAborted(DescribeOp(rank, number));
  const uint64_t arrived = slot.arrived.fetch_add(1, std::memory_order_acq_rel) + 1;
  if ((arrived & kCancelled) != 0) world_.ThrowAborted(DescribeOp(rank, number));
  if (arrived % size() == 0) StartCollective(rank, number, slot);
}

void ThreadGroup::Wait(int rank, int64_t number) {
  Slot& slot = SlotOf(number);
  EventCount::Clock::time_point deadline = world_.Deadline();
  while (slot.done.load(std::memory_order_acquire) < number) {
    RunFragments(number, slot);
    const WaitResult result = AwaitProgress(number, slot, deadline);
    if (result == WaitResult::kReady) continue;
    GiveUp(rank, number, slot, result);
    deadline = world_.Deadline();
  }
  if (world_.aborted()) world_.ThrowAborted(DescribeOp(rank, number));
}

void ThreadGroup::Abandon(int rank, int64_t number) {
  Slot& slot = SlotOf(number);
  if (slot.done.load(std::memory_order_acquire) >= number) return;
  if (!AllPosted(number, slot)) {
    world_.Abort(base::Concat(DescribeOp(rank, number), " was given up"));
    if (Cancel(number, slot)) return;
  }
  while (slot.done.load(std::memory_order_acquire) < number) {
    RunFragments(number, slot);
    AwaitProgress(number, slot, world_.Deadline());
  }
}

void ThreadGroup::Notify() {
  event_.NotifyAll();
  for (Mailbox& mailbox : mailboxes_) mailbox.event().NotifyAll();
}

bool ThreadGroup::AllPosted(int64_t number, const Slot& slot) const {
  const uint64_t arrived = slot.arrived.load(std::memory_order_acquire);
  const auto target = static_cast<uint64_t>(base::CeilDiv(number, kNumSlots) * size());
  // A slot in use again may have been cancelled since: then this collective is done.
  return ((arrived & kCancelled) == 0 && arrived >= target) ||
         slot.done.load(std::memory_order_acquire) >= number;
}

bool ThreadGroup::IsMissing(int rank, int64_t number, const Slot& slot) const {
  return slot.shares[rank].number.load(std::memory_order_acquire) < number;
}

std::vector<int> ThreadGroup::MissingRanks(int64_t number, const Slot& slot) const {
  std::vector<int> missing;
  for (int rank = 0; rank < size(); ++rank) {
    if (IsMissing(rank, number, slot)) missing.push_back(world_rank(rank));
  }
  return missing;
}

std::vector<int> ThreadGroup::EndedRanks(int64_t number, const Slot& slot) const {
  std::vector<int> ended;
  if (!world_.AnyEnded()) return ended;
  for (int rank = 0; rank < size(); ++rank) {
    // In this order: a rank posts before it ends.
    if (world_.HasEnded(world_rank(rank)) && IsMissing(rank, number, slot)) {
      ended.push_back(world_rank(rank));
    }
  }
  return ended;
}

std::string ThreadGroup::DescribeOp(int rank, int64_t number) {
  const CollectiveHeader& header = SlotOf(number).shares[rank].header;
  return base::Concat(Describe(rank), ": ", ToString(header.kind), " #", number);
}

void ThreadGroup::StartCollective(int rank, int64_t number, Slot& slot) {
  if (const std::string mismatch = Mismatch(number, slot); !mismatch.empty()) {
    const std::string reason = base::Concat(Describe(rank), ": ", mismatch);
    world_.Abort(reason);
    Complete(number, slot);  // Nothing was run; the others see the abort.
    throw base::CommError(reason);
  }
  Collective& collective = slot.collective;
  collective.header = slot.shares[rank].header;
  for (int r = 0; r < size(); ++r) {
    collective.inputs[r] = slot.shares[r].input;
    collective.outputs[r] = slot.shares[r].output;
  }
  if (collective.header.kind == CollectiveKind::kSplit) {
    try {
      RunSplit(slot);
    } catch (const std::exception& error) {  // no memory for the groups; told to the peers
      world_.Abort(base::Concat(DescribeOp(rank, number), ": ", error.what()));
      Complete(number, slot);  // all have posted and would wait for it
      throw;
    }
  }
  slot.num_fragments = NumFragments(collective.header, size());
  if (WorkBytes(collective.header, size()) <= kMaxImmediateBytes) {
    for (int64_t i = 0; i < slot.num_fragments; ++i) RunFragment(collective, i);
    return Complete(number, slot);
  }
  slot.num_finished.store(0, std::memory_order_relaxed);
  slot.claim.store(
      static_cast<uint64_t>(number) << kFragmentBits | static_cast<uint64_t>(slot.num_fragments),
      std::memory_order_release);
  event_.NotifyAll();
}

std::string ThreadGroup::Mismatch(int64_t number, const Slot& slot) const {
  const CollectiveHeader& first = slot.shares[0].header;
  for (int rank = 1; rank < size(); ++rank) {
    const CollectiveHeader& other = slot.shares[rank].header;
    if (other == first) continue;
    return base::Concat("operation #", number, " differs: rank ", world_rank(0), " called ",
                        ToString(first), ", rank ", world_rank(rank), " called ", ToString(other));
  }
  return "";
}

void ThreadGroup::RunSplit(const Slot& slot) {
  // By color, then key, then rank.
  std::map<int, std::vector<std::pair<int, int>>> members_by_color;
  const auto request_of = [&](int rank) {
    return static_cast<SplitRequest*>(slot.collective.outputs[rank]);
  };
  for (int rank = 0; rank < size(); ++rank) {
    const SplitRequest& request = *request_of(rank);
    if (request.color >= 0) members_by_color[request.color].emplace_back(request.key, rank);
  }
  for (auto& [color, members] : members_by_color) {
    std::sort(members.begin(), members.end());
    std::vector<int> ranks;
    for (const auto& [key, rank] : members) ranks.push_back(world_rank(rank));
    ThreadGroup& group = world_.AddGroup(request_of(members.front().second)->name, ranks);
    for (size_t i = 0; i < members.size(); ++i) {
      request_of(members[i].second)->group = &group;
      request_of(members[i].second)->rank = static_cast<int>(i);
    }
  }
}

void ThreadGroup::Complete(int64_t number, Slot& slot) {
  slot.done.store(number, std::memory_order_release);
  event_.NotifyAll();
}

int64_t ThreadGroup::FragmentsLeft(int64_t number, uint64_t claim) {
  const bool is_of_number = claim >> kFragmentBits == static_cast<uint64_t>(number);
  return is_of_number ? static_cast<int64_t>(claim & kMaxFragments) : 0;
}

void ThreadGroup::RunFragments(int64_t number, Slot& slot) {
  uint64_t claim = slot.claim.load(std::memory_order_acquire);
  while (const int64_t num_left = FragmentsLeft(number, claim)) {
    if (!slot.claim.compare_exchange_weak(claim, claim - 1, std::memory_order_acq_rel)) continue;
    // A claimed fragment holds the slot: it cannot complete before this one is counted.
    const int64_t num_fragments = slot.num_fragments;
    RunFragment(slot.collective, num_fragments - num_left);
    const int64_t num_finished = slot.num_finished.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (num_finished == num_fragments) Complete(number, slot);
    claim = slot.claim.load(std::memory_order_acquire);
  }
}

WaitResult ThreadGroup::AwaitProgress(int64_t number, Slot& slot,
                                      EventCount::Clock::time_point deadline) {
  const auto ready = [&] {
    return slot.done.load(std::memory_order_acquire) >= number ||
           FragmentsLeft(number, slot.claim.load(std::memory_order_acquire)) > 0;
  };
  const auto interrupted = [&] {
    return (world_.aborted() || !EndedRanks(number, slot).empty()) && !AllPosted(number, slot);
  };
  return event_.Await(world_.wait_policy(), deadline, ready, interrupted);
}

bool ThreadGroup::Cancel(int64_t number, Slot& slot) {
  uint64_t arrived = slot.arrived.load(std::memory_order_acquire);
  while (!AllPosted(number, slot)) {
    if ((arrived & kCancelled) != 0) return true;
    if (slot.arrived.compare_exchange_weak(arrived, arrived | kCancelled,
                                           std::memory_order_acq_rel)) {
      return true;
    }
  }
  return false;
}

void ThreadGroup::GiveUp(int rank, int64_t number, Slot& slot, WaitResult why) {
  if (AllPosted(number, slot)) return;
  if (world_.aborted()) {
    if (Cancel(number, slot)) world_.ThrowAborted(DescribeOp(rank, number));
    return;
  }
  const std::string reason =
      why == WaitResult::kTimedOut
          ? base::Concat(DescribeOp(rank, number), " timed out after ", world_.options().timeout_s,
                         " s; ", RanksHave(MissingRanks(number, slot)), " not arrived")
          : base::Concat(DescribeOp(rank, number), " cannot complete; ",
                         RanksHave(EndedRanks(number, slot)), " ended without it");
  world_.Abort(reason);
  if (Cancel(number, slot)) throw base::CommError(reason);
}

}  // namespace tessera::engine
