#include "engine/comm/rank_progress.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

// A line for each group and wait, a tab between fields, a comma between numbers, a semicolon
// between shapes.
constexpr char kGroupLine = 'g';
constexpr char kWaitLine = 'w';
constexpr char kShapeSeparator = ';';

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

using Messages = std::map<int, MessageProgress>;

std::string TextOf(const Messages& messages) {
  std::string text;
  for (const auto& [rank, progress] : messages) {
    text += base::Concat(text.empty() ? "" : ",", rank, ',', progress.num, ',', progress.last);
  }
  return text;
}

Messages MessagesOf(const std::string& text) {
  const std::vector<std::string> words = SplitAt(text, ',');
  Messages messages;
  for (size_t i = 0; i + 2 < words.size(); i += 3) {
    messages[static_cast<int>(NumberOf(words[i]))] = {.num = NumberOf(words[i + 1]),
                                                      .last = words[i + 2]};
  }
  return messages;
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

MessageProgress With(const Messages& messages, int rank) {
  const auto found = messages.find(rank);
  return found == messages.end() ? MessageProgress() : found->second;
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

// Of a message that both ends have called.
std::string DifferenceOfEnds(const RankWait& wait, int waiter, const Answers& ranks) {
  const int peer = wait.op.peer;
  const GroupProgress mine = ranks.at(static_cast<size_t>(waiter))->groups.at(wait.group);
  const GroupProgress other = ranks.at(static_cast<size_t>(peer))->groups.at(wait.group);
  const bool is_send = wait.op.kind == CommOp::Kind::kSend;
  const MessageProgress here = With(is_send ? mine.sent : mine.received, peer);
  const MessageProgress there = With(is_send ? other.received : other.sent, waiter);
  const bool are_at_it = here.num == wait.op.number && there.num == wait.op.number;
  if (!are_at_it || here.last == there.last) return "";
  return base::Concat("the two ends differ: rank ", waiter, " called ", here.last, ", rank ", peer,
                      " called ", there.last);
}

// "" where it is not among the last.
std::string ShapeOfCollective(const GroupProgress& group, int64_t number) {
  const int64_t num_later = group.num_collectives - number;
  const auto num_known = static_cast<int64_t>(group.last_collectives.size());
  if (num_later < 0 || num_later >= num_known) return "";
  return group.last_collectives[static_cast<size_t>(num_known - 1 - num_later)];
}

// Of a collective that all have called.
std::string DifferenceOfCalls(const RankWait& wait, const Answers& ranks) {
  std::string first_shape;
  int first = 0;
  for (const int rank : wait.world_ranks) {
    const GroupProgress& group = ranks.at(static_cast<size_t>(rank))->groups.at(wait.group);
    const std::string shape = ShapeOfCollective(group, wait.op.number);
    if (shape.empty() || shape == first_shape) continue;
    if (!first_shape.empty()) {
      return base::Concat("operation #", wait.op.number, " differs: rank ", first, " called ",
                          first_shape, ", rank ", rank, " called ", shape);
    }
    first_shape = shape;
    first = rank;
  }
  return "";
}

std::string ProgressDifference(const RankWait& wait, int waiter, const Answers& ranks) {
  return wait.op.kind == CommOp::Kind::kCollective ? DifferenceOfCalls(wait, ranks)
                                                   : DifferenceOfEnds(wait, waiter, ranks);
}

// "; rank 2 waits in send #1 to rank 3, tag 0 of pp{2,3}: rank 3 has not posted its end": from the
// rank that is missing to the end of the chain.
std::string WhatItWaitsFor(int rank, const Answers& ranks) {
  std::string text;
  std::set<int> seen;
  while (seen.insert(rank).second) {
    const RankProgress& progress = *ranks.at(static_cast<size_t>(rank));
    if (progress.waits.empty()) return text;
    const RankWait& wait = progress.waits.front();
    const std::vector<int> missing = RanksThatHaveNotCalled(wait, rank, ranks);
    const std::string reason =
        missing.empty() ? ProgressDifference(wait, rank, ranks) : HaveNot(wait, missing);
    if (reason.empty()) return text;
    text += base::Concat("; rank ", rank, " waits in ", TitleOf(wait.op), " of ", wait.name, ": ",
                         reason);
    if (missing.empty()) return text;
    rank = missing.front();
  }
  return text;
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
    std::string shapes;
    for (const std::string& shape : group.last_collectives) {
      shapes += base::Concat(shapes.empty() ? "" : std::string(1, kShapeSeparator), shape);
    }
    text += base::Concat(kGroupLine, '\t', id, '\t', group.num_collectives, '\t', shapes, '\t',
                         TextOf(group.sent), '\t', TextOf(group.received), '\n');
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
                                  .last_collectives = SplitAt(fields[3], kShapeSeparator),
                                  .sent = MessagesOf(fields[4]),
                                  .received = MessagesOf(fields[5])};
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
      return With(group.received, waiter).num < wait.op.number;
    case CommOp::Kind::kReceive:
      return With(group.sent, waiter).num < wait.op.number;
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
  const std::string difference = ProgressDifference(wait, waiter, ranks);
  if (!difference.empty()) return difference;
  return "all ranks have come, their data has not: the two ends differ in size, type or tag, or "
         "the network is slow";
}

}  // namespace tessera::engine
