#include "engine/comm/rank_progress.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

// A line for each group and wait, a tab between fields, a comma between numbers.
constexpr char kGroupLine = 'g';
constexpr char kWaitLine = 'w';

std::vector<std::string> SplitAt(const std::string& text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

int64_t NumberOf(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw base::CommError("no number in what a rank tells of its progress: \"" + text + '"');
  }
  return number;
}

std::string TextOf(const std::map<int, int64_t>& counts) {
  std::string text;
  for (const auto& [rank, count] : counts) {
    text += base::Concat(text.empty() ? "" : ",", rank, ',', count);
  }
  return text;
}

std::map<int, int64_t> CountsOf(const std::string& text) {
  const std::vector<std::string> numbers = SplitAt(text, ',');
  std::map<int, int64_t> counts;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
    counts[static_cast<int>(NumberOf(numbers[i]))] = NumberOf(numbers[i + 1]);
  }
  return counts;
}

void CheckFields(const std::vector<std::string>& fields, size_t expected) {
  if (fields.size() == expected) return;
  throw base::CommError(base::Concat(fields.size(), " fields instead of ", expected,
                                     " in what a rank tells of its progress"));
}

RankWait WaitOf(const std::vector<std::string>& fields) {
  CheckFields(fields, 9);
  RankWait wait = {.group = fields[1], .name = fields[2]};
  wait.op.kind = static_cast<CommOp::Kind>(NumberOf(fields[3]));
  wait.op.header.kind = static_cast<CollectiveKind>(NumberOf(fields[4]));
  wait.op.peer = static_cast<int>(NumberOf(fields[5]));
  wait.op.tag = static_cast<int>(NumberOf(fields[6]));
  wait.op.number = NumberOf(fields[7]);
  for (const std::string& rank : SplitAt(fields[8], ',')) {
    wait.world_ranks.push_back(static_cast<int>(NumberOf(rank)));
  }
  return wait;
}

int64_t CountFor(const std::map<int, int64_t>& counts, int rank) {
  const auto found = counts.find(rank);
  return found == counts.end() ? 0 : found->second;
}

using Answers = std::vector<std::optional<RankProgress>>;

std::vector<int> RanksThatHaveNotCalled(const RankWait& wait, int waiter, const Answers& ranks) {
  std::vector<int> missing;
  for (const int rank : wait.world_ranks) {
    if (rank != waiter && HasNotCalled(wait, waiter, rank, *ranks.at(static_cast<size_t>(rank)))) {
      missing.push_back(rank);
    }
  }
  return missing;
}

std::string HaveNot(const RankWait& wait, const std::vector<int>& missing) {
  const bool is_collective = wait.op.kind == CommOp::Kind::kCollective;
  return base::Concat(ListOfRanks(missing), missing.size() == 1 ? " has" : " have",
                      is_collective ? " not arrived" : " not posted its end");
}

// "; rank 2 waits in send to rank 3, tag 0 of pp{2,3}: rank 3 has not posted its end": from the
// rank that is missing to the one at the end of the chain.
std::string WhatItWaitsFor(int rank, const Answers& ranks) {
  std::string text;
  std::set<int> seen;
  while (seen.insert(rank).second) {
    const RankProgress& progress = *ranks.at(static_cast<size_t>(rank));
    if (progress.waits.empty()) return text;
    const RankWait& wait = progress.waits.front();
    const std::vector<int> missing = RanksThatHaveNotCalled(wait, rank, ranks);
    if (missing.empty()) return text;
    text += base::Concat("; rank ", rank, " waits in ", TitleOf(wait.op), " of ", wait.name, ": ",
                         HaveNot(wait, missing));
    rank = missing.front();
  }
  return text;
}

std::string Difference(const RankWait& wait, const Answers& ranks) {
  const auto last_of = [&](int rank) {
    return ranks.at(static_cast<size_t>(rank))->groups.at(wait.group);
  };
  const int first = wait.world_ranks.front();
  for (const int rank : wait.world_ranks) {
    const GroupProgress& mine = last_of(first);
    const GroupProgress& other = last_of(rank);
    if (mine.num_collectives != other.num_collectives) return "";
    if (mine.last_collective == other.last_collective) continue;
    return base::Concat("operation #", wait.op.number, " differs: rank ", first, " called ",
                        mine.last_collective, ", rank ", rank, " called ", other.last_collective);
  }
  return "";
}

}  // namespace

std::string ListOfRanks(const std::vector<int>& ranks) {
  std::string list;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - begin == 2) --end;
    list += base::Concat(list.empty() ? "" : ", ", ranks[begin]);
    if (end - begin > 1) list += base::Concat('-', ranks[end - 1]);
    begin = end;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + list;
}

std::string SerializeProgress(const RankProgress& progress) {
  std::string text;
  for (const auto& [id, group] : progress.groups) {
    text +=
        base::Concat(kGroupLine, '\t', id, '\t', group.num_collectives, '\t', group.last_collective,
                     '\t', TextOf(group.num_sent), '\t', TextOf(group.num_received), '\n');
  }
  for (const RankWait& wait : progress.waits) {
    std::string ranks;
    for (const int rank : wait.world_ranks) ranks += base::Concat(ranks.empty() ? "" : ",", rank);
    text += base::Concat(kWaitLine, '\t', wait.group, '\t', wait.name, '\t',
                         static_cast<int>(wait.op.kind), '\t',
                         static_cast<int>(wait.op.header.kind), '\t', wait.op.peer, '\t',
                         wait.op.tag, '\t', wait.op.number, '\t', ranks, '\n');
  }
  return text;
}

RankProgress ParseProgress(const std::string& text) {
  RankProgress progress;
  for (const std::string& line : SplitAt(text, '\n')) {
    if (line.empty()) continue;  // behind the last one
    const std::vector<std::string> fields = SplitAt(line, '\t');
    if (line.front() == kWaitLine) {
      progress.waits.push_back(WaitOf(fields));
      continue;
    }
    CheckFields(fields, 6);
    progress.groups[fields[1]] = {.num_collectives = NumberOf(fields[2]),
                                  .last_collective = fields[3],
                                  .num_sent = CountsOf(fields[4]),
                                  .num_received = CountsOf(fields[5])};
  }
  return progress;
}

bool HasNotCalled(const RankWait& wait, int waiter, int rank, const RankProgress& other) {
  if (std::find(wait.world_ranks.begin(), wait.world_ranks.end(), rank) == wait.world_ranks.end()) {
    return false;
  }
  const auto found = other.groups.find(wait.group);
  if (found == other.groups.end()) return true;
  const GroupProgress& group = found->second;
  switch (wait.op.kind) {
    case CommOp::Kind::kCollective:
      return group.num_collectives < wait.op.number;
    case CommOp::Kind::kSend:
      return CountFor(group.num_received, waiter) < wait.op.number;
    case CommOp::Kind::kReceive:
      return CountFor(group.num_sent, waiter) < wait.op.number;
  }
  return false;
}

std::string Diagnose(const RankWait& wait, int waiter, const Answers& ranks) {
  std::vector<int> silent;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank]) silent.push_back(static_cast<int>(rank));
  }
  if (!silent.empty()) {
    return ListOfRanks(silent) + (silent.size() == 1 ? " does" : " do") +
           " not respond: stopped, or cut off from the network";
  }
  const std::vector<int> missing = RanksThatHaveNotCalled(wait, waiter, ranks);
  if (!missing.empty()) return HaveNot(wait, missing) + WhatItWaitsFor(missing.front(), ranks);
  if (wait.op.kind == CommOp::Kind::kCollective) {
    const std::string difference = Difference(wait, ranks);
    if (!difference.empty()) return difference;
  }
  return "all ranks have come, their data has not: the two ends differ in size, type or tag, or "
         "the network is slow";
}

}  // namespace tessera::engine
