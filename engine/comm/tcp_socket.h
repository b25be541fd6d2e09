// A TCP connection with a deadline on everything.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::engine {

using Deadline = std::chrono::steady_clock::time_point;
Deadline DeadlineAfter(double timeout_s);
double SecondsLeft(Deadline deadline);  // 0 once it has passed

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  int descriptor() const { return descriptor_; }

  // False when the peer has gone or the deadline has passed.
  [[nodiscard]] bool SendAll(const std::string& bytes, Deadline deadline) const;
  [[nodiscard]] bool ReceiveAll(size_t num_bytes, std::string& bytes, Deadline deadline) const;
  // Adds what has come so far to `bytes`, at most `max_bytes` of it. False when the peer has gone.
  [[nodiscard]] bool ReceiveSome(size_t max_bytes, std::string& bytes) const;

 private:
  int descriptor_ = -1;
};

// Listens on `port` of every address of this host; 0 lets the system choose. Throws
// base::SystemError where the port is taken.
Socket Listen(int port);
int PortOf(const Socket& listener);
// The numeric addresses of a connection's ends, IPv4 as such: "10.0.0.7".
std::string LocalAddressOf(const Socket& connection);
std::string PeerAddressOf(const Socket& connection);
// Returns the indices of the sockets that have something to read, or are closed; none when nothing
// has come by the deadline.
std::vector<size_t> AwaitAny(const std::vector<const Socket*>& sockets, Deadline deadline);
// The next connection, nullopt when none has come by the deadline.
std::optional<Socket> Accept(const Socket& listener, Deadline deadline);
// One attempt. Nullopt where nobody listens there (yet); `problem` then says why. Throws
// base::ConfigError for an address that no name service knows.
std::optional<Socket> Connect(const std::string& address, int port, Deadline deadline,
                              std::string& problem);

}  // namespace tessera::engine
