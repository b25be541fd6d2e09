// The messages by which the processes of a run stay together: one connection from each rank to the
// server beside rank 0 (control_server.h).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/tcp_socket.h"

namespace tessera::engine {

// What is said of a rank whose connection has closed.
inline constexpr std::string_view kIsGone =
    " is gone: its process has ended, or its connection was cut";

enum class ControlKind : uint8_t {
  kHello,     // a rank's first: its number; the run's secret as text
  kWelcome,   // all ranks are there; text: the address under which peers reach this one
  kSet,       // key and text
  kGet,       // key: wants a kValue as soon as somebody has set it
  kValue,     // key and text
  kTimedOut,  // key: the message so far; text: a RankProgress with the one wait that is too long
  kAsk,       // wants a kReport
  kReport,    // text: a RankProgress
  kFail,      // the run ends; text: why; rank: that found out
  kLeave,     // a rank has done its work; text: its RankProgress
  kLeft,      // rank has done its work; text: its RankProgress
  kAllLeft,   // every rank has
};

struct ControlMessage {
  ControlKind kind = ControlKind::kHello;
  int rank = 0;
  std::string key;
  std::string text;
};

class ControlChannel {
 public:
  explicit ControlChannel(Socket socket);

  const Socket& socket() const { return socket_; }

  // False when the peer has gone. Safe to call from several threads.
  [[nodiscard]] bool Send(const ControlMessage& message);
  // Adds what has come so far to `messages`; false when the peer has gone, or talks nonsense.
  [[nodiscard]] bool Receive(std::vector<ControlMessage>& messages);

 private:
  // Moves whole messages out of what was received; false for one that is too long.
  bool TakeWhole(std::vector<ControlMessage>& messages);

  Socket socket_;
  std::mutex send_mutex_;
  std::string received_;
};

// Lets a thread that polls be woken by another.
class WakeUp {
 public:
  WakeUp();  // throws base::SystemError
  int descriptor() const { return event_.descriptor(); }
  void Signal() const;
  void Clear() const;

 private:
  Socket event_;
};

}  // namespace tessera::engine
