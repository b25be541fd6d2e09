#include "engine/comm/tcp_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

struct AddressRelease {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

// For poll: never early, and not beyond what it takes.
int MillisecondsLeft(Deadline deadline) {
  constexpr double kMillisecondsPerSecond = 1e3;
  const double left_s = SecondsLeft(deadline);
  return left_s <= 0 ? 0 : static_cast<int>(std::min(left_s * kMillisecondsPerSecond + 1, 1e6));
}

// Whether the socket is ready for `events` by the deadline.
bool Await(int descriptor, short events, Deadline deadline) {
  while (true) {
    pollfd entry = {.fd = descriptor, .events = events, .revents = 0};
    const int num_ready = poll(&entry, 1, MillisecondsLeft(deadline));
    if (num_ready > 0) return true;
    if (num_ready < 0 && errno != EINTR) return false;
    if (num_ready == 0 && SecondsLeft(deadline) <= 0) return false;
  }
}

void MakeNonBlocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

// Why an attempt to connect that was under way has failed; 0 if it has not.
int ConnectError(int descriptor) {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

Deadline DeadlineAfter(double timeout_s) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(timeout_s));
}

double SecondsLeft(Deadline deadline) {
  const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
  return std::max(0.0, left.count());
}

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

bool Socket::SendAll(const std::string& bytes, Deadline deadline) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t sent = send(descriptor_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent > 0) {
      done += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!Await(descriptor_, POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool Socket::ReceiveAll(size_t num_bytes, std::string& bytes, Deadline deadline) const {
  bytes.resize(num_bytes);
  for (size_t done = 0; done < num_bytes;) {
    if (!Await(descriptor_, POLLIN, deadline)) return false;
    const ssize_t received = recv(descriptor_, bytes.data() + done, num_bytes - done, 0);
    if (received > 0) {
      done += static_cast<size_t>(received);
    } else if (received == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return false;
    }
  }
  return true;
}

bool Socket::ReceiveSome(size_t max_bytes, std::string& bytes) const {
  const size_t before = bytes.size();
  bytes.resize(before + max_bytes);
  ssize_t received = 0;
  do {
    received = recv(descriptor_, bytes.data() + before, max_bytes, MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  const bool is_empty = received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  bytes.resize(before + (received > 0 ? static_cast<size_t>(received) : 0));
  return received > 0 || is_empty;
}

std::vector<size_t> AwaitAny(const std::vector<const Socket*>& sockets, Deadline deadline) {
  std::vector<pollfd> entries;
  for (const Socket* const socket : sockets) {
    entries.push_back({.fd = socket->descriptor(), .events = POLLIN, .revents = 0});
  }
  int num_ready = 0;
  do {
    num_ready = poll(entries.data(), entries.size(), MillisecondsLeft(deadline));
  } while (num_ready <= 0 && SecondsLeft(deadline) > 0);
  std::vector<size_t> ready;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents != 0) ready.push_back(i);
  }
  return ready;
}

Socket Listen(int port) {
  Socket listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address = {};
  socklen_t size = 0;
  if (listener.descriptor() >= 0) {
    const int off = 0;  // IPv4 as well
    setsockopt(listener.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    auto& any = reinterpret_cast<sockaddr_in6&>(address);
    any = {.sin6_family = AF_INET6, .sin6_port = htons(static_cast<uint16_t>(port))};
    size = sizeof(any);
  } else {
    listener = Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto& any = reinterpret_cast<sockaddr_in&>(address);
    any = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    size = sizeof(any);
  }
  const int on = 1;  // a run may follow another at once
  setsockopt(listener.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.descriptor(), SOMAXCONN) != 0) {
    throw base::SystemError(
        base::Concat("cannot listen on port ", port, ": ", std::strerror(errno)));
  }
  MakeNonBlocking(listener.descriptor());
  return listener;
}

int PortOf(const Socket& listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  // Both families have the port in the same place.
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

namespace {

std::string Numeric(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> host = {};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(),
                  nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  const std::string text = host.data();
  constexpr std::string_view kMappedPrefix = "::ffff:";  // IPv4 that came to an IPv6 socket
  return text.rfind(kMappedPrefix, 0) == 0 ? text.substr(kMappedPrefix.size()) : text;
}

}  // namespace

std::string LocalAddressOf(const Socket& connection) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(connection.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  return Numeric(address, size);
}

std::string PeerAddressOf(const Socket& connection) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getpeername(connection.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  return Numeric(address, size);
}

std::optional<Socket> Accept(const Socket& listener, Deadline deadline) {
  while (Await(listener.descriptor(), POLLIN, deadline)) {
    Socket connection(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.descriptor() < 0) continue;  // gone again
    MakeNonBlocking(connection.descriptor());
    return connection;
  }
  return std::nullopt;
}

// One address of a host may lead nowhere while another works.
constexpr double kAddressPatienceS = 5;

std::optional<Socket> Connect(const std::string& address, int port, Deadline deadline,
                              std::string& problem) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, AddressRelease> addresses(found);
  if (error == EAI_NONAME) {
    throw base::ConfigError("the environment", "MASTER_ADDR", "\"" + address + "\"",
                            base::Concat("a host that is known here (", gai_strerror(error), ')'));
  }
  if (error != 0) problem = gai_strerror(error);
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    Socket connection(socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, entry->ai_protocol));
    if (connection.descriptor() < 0) continue;
    MakeNonBlocking(connection.descriptor());
    if (connect(connection.descriptor(), entry->ai_addr, entry->ai_addrlen) == 0) return connection;
    const bool is_under_way = errno == EINPROGRESS;
    const bool is_over =
        is_under_way && Await(connection.descriptor(), POLLOUT,
                              std::min(deadline, DeadlineAfter(kAddressPatienceS)));
    int reason = is_under_way ? ETIMEDOUT : errno;
    if (is_over) reason = ConnectError(connection.descriptor());
    if (is_over && reason == 0) return connection;
    problem = std::strerror(reason);
  }
  return std::nullopt;
}

}  // namespace tessera::engine
