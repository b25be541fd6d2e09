// A rank's end of its connection to the control server.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/comm/control_channel.h"
#include "engine/comm/rank_progress.h"
#include "engine/comm/tcp_socket.h"

namespace tessera::engine {

struct ControlFailure {
  int rank = 0;  // that found out
  std::string reason;
};

// Called from the client's own thread.
struct ControlHooks {
  std::function<RankProgress()> progress;
  // Once; from the thread that called Fail where that was first.
  std::function<void(const ControlFailure&)> on_failure;
  std::function<void(int rank, const RankProgress&)> on_left;
  std::function<void()> on_tick;  // many times a second
};

// Safe to call from every thread of the rank.
class ControlClient {
 public:
  // Returns when all ranks are connected. Throws base::CommError after the deadline, or a little
  // later with what the server has to say.
  ControlClient(const std::string& address, int port, int rank, const std::string& secret,
                Deadline deadline);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Under which the other ranks reach this one.
  const std::string& own_address() const { return own_address_; }
  void Start(ControlHooks hooks);
  void Stop();  // no hook is called any more

  void Set(const std::string& key, const std::string& value);
  // Waits for another rank to set it. Nullopt when the run fails first.
  std::optional<std::string> Get(const std::string& key);

  // The first failure stays.
  void Fail(const std::string& reason);
  // Fails what this rank does, as an error makes it leave something undone. The peers are told what
  // it then says with Fail; `reason` if that says nothing for a moment.
  void GiveUp(const std::string& reason);
  std::optional<ControlFailure> failure() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Whether there is one by then.
  bool AwaitFailure(double patience_s) const;

  // This rank has waited too long in `progress`.waits.front(), as `message` says: the server finds
  // out why and makes the run fail; without its answer within a moment the rank does so itself.
  void TellTimeout(const std::string& message, const RankProgress& progress);

  // This rank has done its work. Returns when all have, or when the run fails, or after the time.
  void Leave(const RankProgress& progress, double patience_s);

 private:
  void Run(const std::stop_token& stop);
  void Handle(const ControlMessage& message);
  void SetFailure(const ControlFailure& failure);
  // Tells the peers of what was given up, where they do not know.
  void TellWhatWasGivenUp();

  const int rank_;
  std::string own_address_;
  ControlChannel channel_;
  WakeUp wake_up_;
  ControlHooks hooks_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // of what follows
  mutable std::condition_variable changed_;
  std::optional<ControlFailure> failure_;
  std::optional<Deadline> cause_deadline_;  // of a failure that the peers do not know yet
  std::map<std::string, std::string> values_;
  bool all_have_left_ = false;
  std::optional<Deadline> answer_deadline_;  // of the server, after TellTimeout
  std::string timeout_message_;
  std::jthread thread_;
};

}  // namespace tessera::engine
