#include "engine/comm/control_client.h"

#include <poll.h>

#include <chrono>
#include <utility>
#include <vector>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "engine/comm/attendance.h"

namespace tessera::engine {
namespace {

// How late a timeout or the end of a peer may be noticed.
constexpr int kTickMs = 20;
constexpr std::chrono::milliseconds kConnectInterval{20};
// The server answers within 0.7 s, or rank 0 is in trouble itself.
constexpr double kServerPatienceS = 1.3;
// An exception that unwinds a rank comes out at its end.
constexpr double kCausePatienceS = 0.3;

Socket ConnectTo(const std::string& address, int port, int rank, Deadline deadline) {
  std::string problem;
  while (true) {
    std::optional<Socket> socket = Connect(address, port, deadline, problem);
    if (socket) return std::move(*socket);
    if (SecondsLeft(deadline) <= 0) {
      throw base::CommError(base::Concat("rank ", rank, ": rank 0 at ", address, " port ", port,
                                         " does not answer: ", problem));
    }
    std::this_thread::sleep_for(kConnectInterval);
  }
}

}  // namespace

ControlClient::ControlClient(const std::string& address, int port, int rank,
                             const std::string& secret, Deadline deadline)
    : rank_(rank), channel_(ConnectTo(address, port, rank, deadline)) {
  bool is_open = channel_.Send({.kind = ControlKind::kHello, .rank = rank, .text = secret});
  std::vector<ControlMessage> messages;
  while (is_open && messages.empty()) {
    pollfd entry = {.fd = channel_.socket().descriptor(), .events = POLLIN};
    const int num_ready = poll(&entry, 1, kTickMs);
    if (num_ready > 0) is_open = channel_.Receive(messages);
    if (messages.empty() && SecondsLeft(WithAnswerGrace(deadline)) <= 0) {
      throw base::CommError(
          base::Concat("rank ", rank, ": rank 0 at ", address,
                       " does not respond: stopped, or cut off from the network"));
    }
  }
  if (messages.empty()) {
    throw base::CommError(base::Concat("rank ", rank, ": rank 0 at ", address, " has hung up"));
  }
  for (const ControlMessage& message : messages) {
    if (message.kind == ControlKind::kWelcome) own_address_ = message.text;
    if (message.kind == ControlKind::kFail) {
      throw base::CommError(base::Concat("rank ", rank, ": ", message.text));
    }
  }
}

ControlClient::~ControlClient() { Stop(); }

void ControlClient::Stop() {
  thread_.request_stop();
  wake_up_.Signal();
  if (thread_.joinable()) thread_.join();
  TellWhatWasGivenUp();
}

void ControlClient::Start(ControlHooks hooks) {
  hooks_ = std::move(hooks);
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void ControlClient::Run(const std::stop_token& stop) {
  bool is_open = true;
  while (!stop.stop_requested()) {
    std::vector<pollfd> entries = {{.fd = wake_up_.descriptor(), .events = POLLIN}};
    if (is_open) entries.push_back({.fd = channel_.socket().descriptor(), .events = POLLIN});
    poll(entries.data(), entries.size(), kTickMs);
    wake_up_.Clear();
    std::vector<ControlMessage> messages;
    if (is_open) is_open = channel_.Receive(messages);
    for (const ControlMessage& message : messages) Handle(message);
    std::unique_lock lock(mutex_);
    const bool is_unanswered = answer_deadline_ && SecondsLeft(*answer_deadline_) <= 0;
    const bool is_over = all_have_left_;
    const bool is_without_cause = cause_deadline_ && SecondsLeft(*cause_deadline_) <= 0;
    const std::string message = timeout_message_;
    lock.unlock();
    if (!is_open && !is_over) {
      SetFailure({.rank = rank_, .reason = base::Concat("rank 0", kIsGone)});
    }
    if (is_without_cause) TellWhatWasGivenUp();
    if (is_unanswered) {
      SetFailure(
          {.rank = rank_,
           .reason = message + "; rank 0 does not respond: stopped, or cut off from the network"});
    }
    hooks_.on_tick();
  }
}

void ControlClient::Handle(const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::kValue: {
      const std::lock_guard lock(mutex_);
      values_[message.key] = message.text;
      break;
    }
    case ControlKind::kAsk:
      (void)channel_.Send(
          {.kind = ControlKind::kReport, .text = SerializeProgress(hooks_.progress())});
      break;
    case ControlKind::kFail:
      SetFailure({.rank = message.rank, .reason = message.text});
      break;
    case ControlKind::kLeft:
      hooks_.on_left(message.rank, ParseProgress(message.text));
      break;
    case ControlKind::kAllLeft: {
      const std::lock_guard lock(mutex_);
      all_have_left_ = true;
      break;
    }
    case ControlKind::kHello:
    case ControlKind::kWelcome:
    case ControlKind::kSet:
    case ControlKind::kGet:
    case ControlKind::kTimedOut:
    case ControlKind::kReport:
    case ControlKind::kLeave:
      break;  // what a rank says and is not told
  }
  changed_.notify_all();
}

void ControlClient::SetFailure(const ControlFailure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    failed_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  hooks_.on_failure(failure);
}

void ControlClient::GiveUp(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    cause_deadline_ = DeadlineAfter(kCausePatienceS);
  }
  SetFailure({.rank = rank_, .reason = reason});
}

void ControlClient::TellWhatWasGivenUp() {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(cause_deadline_, std::nullopt)) return;
    reason = failure_->reason;
  }
  (void)channel_.Send({.kind = ControlKind::kFail, .rank = rank_, .text = reason});
}

void ControlClient::Fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ && !std::exchange(cause_deadline_, std::nullopt)) return;
  }
  (void)channel_.Send({.kind = ControlKind::kFail, .rank = rank_, .text = reason});
  SetFailure({.rank = rank_, .reason = reason});
}

std::optional<ControlFailure> ControlClient::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool ControlClient::AwaitFailure(double patience_s) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, DeadlineAfter(patience_s), [&] { return failure_.has_value(); });
}

void ControlClient::Set(const std::string& key, const std::string& value) {
  (void)channel_.Send({.kind = ControlKind::kSet, .key = key, .text = value});
}

std::optional<std::string> ControlClient::Get(const std::string& key) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
  }
  (void)channel_.Send({.kind = ControlKind::kGet, .key = key});
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_.has_value() || values_.count(key) > 0; });
  if (failure_) return std::nullopt;
  return values_.at(key);
}

void ControlClient::TellTimeout(const std::string& message, const RankProgress& progress) {
  {
    const std::lock_guard lock(mutex_);
    if (answer_deadline_ || failure_) return;
    answer_deadline_ = DeadlineAfter(kServerPatienceS);
    timeout_message_ = message;
  }
  (void)channel_.Send(
      {.kind = ControlKind::kTimedOut, .key = message, .text = SerializeProgress(progress)});
}

void ControlClient::Leave(const RankProgress& progress, double patience_s) {
  (void)channel_.Send({.kind = ControlKind::kLeave, .text = SerializeProgress(progress)});
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, DeadlineAfter(patience_s),
                      [&] { return failure_.has_value() || all_have_left_; });
}

}  // namespace tessera::engine
