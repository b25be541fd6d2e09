// Keeps the processes of a run together: a thread beside rank 0 that every rank has a connection
// to. It holds the values by which groups connect, notices a rank whose process ends, asks all
// ranks how far they are when one has waited too long, and tells everybody who is to blame.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/control_channel.h"
#include "engine/comm/rank_progress.h"
#include "engine/comm/tcp_socket.h"

namespace tessera::engine {

class ControlServer {
 public:
  // `secret` is what the ranks of this run say first; others are sent away. At the deadline the run
  // fails where some have not come.
  ControlServer(int num_ranks, std::string secret, Deadline deadline);
  // Waits a moment for the ranks to take in what they were told last.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  int port() const { return PortOf(listener_); }

 private:
  struct Member {
    std::unique_ptr<ControlChannel> channel;  // null before the rank has come and after it has gone
    std::string address;                      // as this host sees it
    bool has_left = false;                    // its work is done
    std::optional<RankProgress> report;       // the answer to the inquiry under way
  };
  // A wait that was too long.
  struct Inquiry {
    int rank = 0;
    std::string message;
    RankWait wait;
    Deadline deadline;
  };

  void Run(const std::stop_token& stop);
  // Returns when something has come, the inquiry is overdue, or the destructor calls.
  void Poll();
  void AcceptRank();
  void NameWhoIsMissing();
  void Welcome();
  void Read(int rank);
  void Handle(int rank, const ControlMessage& message);
  void Set(const std::string& key, const std::string& text);
  void Leave(int rank, const std::string& progress);
  void Ask(int rank, const ControlMessage& message);
  void AnswerIfKnown();
  void Fail(int rank, const std::string& reason);
  void Tell(int rank, const ControlMessage& message);
  void TellAll(const ControlMessage& message);
  // Until every connection is closed by its other end, for a moment at most.
  void Linger();

  const std::string secret_;
  const Deadline deadline_;  // until all ranks must have come
  const Socket listener_;
  WakeUp wake_up_;
  std::vector<Member> members_;  // by rank
  bool is_complete_ = false;
  bool has_failed_ = false;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<int>> wanted_;  // ranks by key
  std::optional<Inquiry> inquiry_;
  std::jthread thread_;
};

}  // namespace tessera::engine
