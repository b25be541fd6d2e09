#include "engine/comm/control_channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

// Messages are a few hundred bytes; a socket's buffer takes many of them.
constexpr double kSendPatienceS = 1;
constexpr uint32_t kMaxMessageBytes = 1 << 24;

// Before the key and the text.
struct Frame {
  uint32_t num_bytes = 0;  // of key and text
  uint32_t key_bytes = 0;
  int32_t rank = 0;
  ControlKind kind = ControlKind::kHello;
};

}  // namespace

ControlChannel::ControlChannel(Socket socket) : socket_(std::move(socket)) {
  const int on = 1;  // questions and answers, which must not wait for more to send
  setsockopt(socket_.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

bool ControlChannel::Send(const ControlMessage& message) {
  const Frame frame = {.num_bytes = static_cast<uint32_t>(message.key.size() + message.text.size()),
                       .key_bytes = static_cast<uint32_t>(message.key.size()),
                       .rank = message.rank,
                       .kind = message.kind};
  std::string bytes(sizeof(frame), '\0');
  std::memcpy(bytes.data(), &frame, sizeof(frame));
  bytes += message.key + message.text;
  const std::lock_guard lock(send_mutex_);
  return socket_.SendAll(bytes, DeadlineAfter(kSendPatienceS));
}

bool ControlChannel::Receive(std::vector<ControlMessage>& messages) {
  constexpr size_t kMaxBytesAtOnce = 16384;
  while (true) {
    const size_t before = received_.size();
    if (!socket_.ReceiveSome(kMaxBytesAtOnce, received_)) return false;
    if (received_.size() == before) return true;
    if (!TakeWhole(messages)) return false;
  }
}

bool ControlChannel::TakeWhole(std::vector<ControlMessage>& messages) {
  Frame frame;
  while (received_.size() >= sizeof(frame)) {
    std::memcpy(&frame, received_.data(), sizeof(frame));
    if (frame.num_bytes > kMaxMessageBytes || frame.key_bytes > frame.num_bytes ||
        frame.kind > ControlKind::kAllLeft) {
      return false;
    }
    if (received_.size() < sizeof(frame) + frame.num_bytes) return true;
    messages.push_back({.kind = frame.kind,
                        .rank = frame.rank,
                        .key = received_.substr(sizeof(frame), frame.key_bytes),
                        .text = received_.substr(sizeof(frame) + frame.key_bytes,
                                                 frame.num_bytes - frame.key_bytes)});
    received_.erase(0, sizeof(frame) + frame.num_bytes);
  }
  return true;
}

WakeUp::WakeUp() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_.descriptor() < 0) {
    throw base::SystemError(base::Concat("eventfd: ", std::strerror(errno)));
  }
}

void WakeUp::Signal() const {
  const uint64_t one = 1;
  // A full counter wakes as well.
  [[maybe_unused]] const ssize_t written = write(event_.descriptor(), &one, sizeof(one));
}

void WakeUp::Clear() const {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t num_read = read(event_.descriptor(), &count, sizeof(count));
}

}  // namespace tessera::engine
