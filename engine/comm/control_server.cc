#include "engine/comm/control_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

// How long ranks may take to say how far they are: part of the time in which every rank of a failed
// run must have ended.
constexpr double kAnswerPatienceS = 0.7;
constexpr double kLingerS = 0.4;
// A connection that does not say at once which rank it is comes from elsewhere.
constexpr double kHelloPatienceS = 1;

bool IsLoopback(const std::string& address) {
  return address.rfind("127.", 0) == 0 || address == "::1";
}

}  // namespace

ControlServer::ControlServer(int num_ranks, std::string secret, Deadline deadline)
    : secret_(std::move(secret)),
      deadline_(deadline),
      listener_(Listen(0)),
      members_(static_cast<size_t>(num_ranks)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

ControlServer::~ControlServer() {
  thread_.request_stop();
  wake_up_.Signal();
}

void ControlServer::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Poll();
    if (!is_complete_ && SecondsLeft(deadline_) <= 0) NameWhoIsMissing();
    AnswerIfKnown();
  }
  if (has_failed_) Linger();
}

void ControlServer::Poll() {
  std::vector<pollfd> entries = {{.fd = wake_up_.descriptor(), .events = POLLIN},
                                 {.fd = listener_.descriptor(), .events = POLLIN}};
  std::vector<int> ranks;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank].channel == nullptr) continue;
    entries.push_back({.fd = members_[rank].channel->socket().descriptor(), .events = POLLIN});
    ranks.push_back(static_cast<int>(rank));
  }
  constexpr double kMillisecondsPerSecond = 1e3;
  std::optional<Deadline> deadline;
  if (inquiry_) deadline = inquiry_->deadline;
  if (!is_complete_ && !has_failed_) deadline = deadline_;
  const int timeout_ms =
      deadline ? static_cast<int>(SecondsLeft(*deadline) * kMillisecondsPerSecond) + 1 : -1;
  if (poll(entries.data(), entries.size(), timeout_ms) <= 0) return;
  if (entries[1].revents != 0) AcceptRank();
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (entries[i + 2].revents != 0) Read(ranks[i]);
  }
}

void ControlServer::AcceptRank() {
  std::optional<Socket> connection = Accept(listener_, DeadlineAfter(0));
  if (!connection) return;
  auto channel = std::make_unique<ControlChannel>(std::move(*connection));
  std::vector<ControlMessage> messages;
  pollfd entry = {.fd = channel->socket().descriptor(), .events = POLLIN};
  const Deadline deadline = DeadlineAfter(kHelloPatienceS);
  while (messages.empty()) {
    const int timeout_ms = static_cast<int>(SecondsLeft(deadline) * 1000);
    if (timeout_ms == 0 || poll(&entry, 1, timeout_ms) <= 0) return;
    if (!channel->Receive(messages)) return;
  }
  const ControlMessage& hello = messages.front();
  if (hello.kind != ControlKind::kHello || hello.text != secret_ || hello.rank < 0 ||
      hello.rank >= static_cast<int>(members_.size())) {
    return;
  }
  Member& member = members_[static_cast<size_t>(hello.rank)];
  if (member.channel != nullptr) return;
  member.address = PeerAddressOf(channel->socket());
  member.channel = std::move(channel);
  const bool all_are_there = std::all_of(members_.begin(), members_.end(),
                                         [](const Member& m) { return m.channel != nullptr; });
  if (all_are_there && !is_complete_) Welcome();
}

void ControlServer::NameWhoIsMissing() {
  std::vector<int> missing;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank].channel == nullptr) missing.push_back(static_cast<int>(rank));
  }
  Fail(/*rank=*/0, ListOfRanks(missing) + (missing.size() == 1 ? " has" : " have") +
                       " come to the meeting, but not connected to rank 0 since");
}

// Tells each rank its own address. Ranks of this host may have come by the loopback interface while
// ranks of others have not: then these are told the address under which others know this host.
void ControlServer::Welcome() {
  is_complete_ = true;
  std::string own_address = "127.0.0.1";
  if (members_.size() > 1) own_address = LocalAddressOf(members_[1].channel->socket());
  for (const Member& member : members_) {
    const std::string address = LocalAddressOf(member.channel->socket());
    if (!IsLoopback(member.address) && !IsLoopback(address)) own_address = address;
  }
  const bool has_other_hosts =
      std::any_of(members_.begin(), members_.end(),
                  [](const Member& member) { return !IsLoopback(member.address); });
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const bool is_here = rank == 0 || (has_other_hosts && IsLoopback(members_[rank].address));
    Tell(static_cast<int>(rank),
         {.kind = ControlKind::kWelcome, .text = is_here ? own_address : members_[rank].address});
  }
}

void ControlServer::Read(int rank) {
  std::vector<ControlMessage> messages;
  Member& member = members_[static_cast<size_t>(rank)];
  const bool is_open = member.channel->Receive(messages);
  try {
    for (const ControlMessage& message : messages) Handle(rank, message);
  } catch (const base::CommError& error) {
    Fail(rank, error.what());
  }
  if (is_open) return;
  const std::string address = member.address;
  member.channel.reset();
  if (member.has_left) return;
  Fail(rank, base::Concat("rank ", rank, " on ", address, kIsGone));
}

void ControlServer::Handle(int rank, const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::kSet:
      return Set(message.key, message.text);
    case ControlKind::kGet: {
      const auto found = values_.find(message.key);
      if (found == values_.end()) {
        wanted_[message.key].push_back(rank);
        return;
      }
      return Tell(rank, {.kind = ControlKind::kValue, .key = message.key, .text = found->second});
    }
    case ControlKind::kTimedOut:
      return Ask(rank, message);
    case ControlKind::kReport:
      members_[static_cast<size_t>(rank)].report = ParseProgress(message.text);
      return;
    case ControlKind::kFail:
      return Fail(rank, message.text);
    case ControlKind::kLeave:
      return Leave(rank, message.text);
    case ControlKind::kHello:
    case ControlKind::kWelcome:
    case ControlKind::kValue:
    case ControlKind::kAsk:
    case ControlKind::kLeft:
    case ControlKind::kAllLeft:
      return;  // what a rank is told and does not say
  }
}

void ControlServer::Set(const std::string& key, const std::string& text) {
  values_[key] = text;
  const auto found = wanted_.find(key);
  if (found == wanted_.end()) return;
  for (const int rank : found->second) {
    Tell(rank, {.kind = ControlKind::kValue, .key = key, .text = text});
  }
  wanted_.erase(found);
}

void ControlServer::Leave(int rank, const std::string& progress) {
  members_[static_cast<size_t>(rank)].has_left = true;
  TellAll({.kind = ControlKind::kLeft, .rank = rank, .text = progress});
  const bool all_have = std::all_of(members_.begin(), members_.end(),
                                    [](const Member& member) { return member.has_left; });
  if (all_have) TellAll({.kind = ControlKind::kAllLeft});
}

void ControlServer::Ask(int rank, const ControlMessage& message) {
  if (has_failed_ || inquiry_) return;
  const RankProgress waiter = ParseProgress(message.text);
  if (waiter.waits.empty()) return;
  inquiry_ = {.rank = rank,
              .message = message.key,
              .wait = waiter.waits.front(),
              .deadline = DeadlineAfter(kAnswerPatienceS)};
  for (Member& member : members_) member.report.reset();
  TellAll({.kind = ControlKind::kAsk});
}

void ControlServer::AnswerIfKnown() {
  if (!inquiry_) return;
  const bool all_have = std::all_of(members_.begin(), members_.end(),
                                    [](const Member& member) { return member.report.has_value(); });
  if (!all_have && SecondsLeft(inquiry_->deadline) > 0) return;
  std::vector<std::optional<RankProgress>> reports;
  for (const Member& member : members_) reports.push_back(member.report);
  const Inquiry inquiry = *std::exchange(inquiry_, std::nullopt);
  Fail(inquiry.rank, inquiry.message + "; " + Diagnose(inquiry.wait, inquiry.rank, reports));
}

void ControlServer::Fail(int rank, const std::string& reason) {
  if (std::exchange(has_failed_, true)) return;
  inquiry_.reset();
  TellAll({.kind = ControlKind::kFail, .rank = rank, .text = reason});
}

void ControlServer::Tell(int rank, const ControlMessage& message) {
  const auto& channel = members_[static_cast<size_t>(rank)].channel;
  // Of one that has gone its next read tells.
  if (channel != nullptr) (void)channel->Send(message);
}

void ControlServer::TellAll(const ControlMessage& message) {
  for (size_t rank = 0; rank < members_.size(); ++rank) Tell(static_cast<int>(rank), message);
}

void ControlServer::Linger() {
  const Deadline deadline = DeadlineAfter(kLingerS);
  for (Member& member : members_) {
    if (member.channel != nullptr) shutdown(member.channel->socket().descriptor(), SHUT_WR);
  }
  std::vector<ControlMessage> ignored;
  for (Member& member : members_) {
    if (member.channel == nullptr) continue;
    pollfd entry = {.fd = member.channel->socket().descriptor(), .events = POLLIN};
    do {
      const int timeout_ms = static_cast<int>(SecondsLeft(deadline) * 1000);
      if (poll(&entry, 1, timeout_ms) <= 0) break;
    } while (member.channel->Receive(ignored));
  }
}

}  // namespace tessera::engine
