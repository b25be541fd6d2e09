#include "engine/comm/thread_mailbox.h"

#include <algorithm>
#include <utility>

#include "engine/comm/copy_bytes.h"

namespace tessera::engine {
namespace {

void Deliver(const Envelope& envelope, const void* source, PendingRecv& recv) {
  CopyBytes(source, recv.data, envelope.count * SizeBytes(envelope.dtype));
  recv.done.store(true, std::memory_order_release);
}

}  // namespace

std::optional<Envelope> Mailbox::Post(PendingSend& send) {
  {
    const std::lock_guard lock(mutex_);
    const auto recv = std::find_if(
        receives_.begin(), receives_.end(),
        [&](const PendingRecv* pending) { return pending->envelope.tag == send.envelope.tag; });
    if (recv == receives_.end()) {
      messages_.push_back({send.envelope, send.data, &send, {}});
      return std::nullopt;
    }
    if ((*recv)->envelope != send.envelope) return (*recv)->envelope;
    Deliver(send.envelope, send.data, **recv);
    receives_.erase(recv);
    send.done.store(true, std::memory_order_release);
  }
  event_.NotifyAll();
  return std::nullopt;
}

std::optional<Envelope> Mailbox::Post(PendingRecv& recv) {
  {
    const std::lock_guard lock(mutex_);
    const auto message = std::find_if(messages_.begin(), messages_.end(), [&](const Message& m) {
      return m.envelope.tag == recv.envelope.tag;
    });
    if (message == messages_.end()) {
      receives_.push_back(&recv);
      return std::nullopt;
    }
    if (message->envelope != recv.envelope) return message->envelope;
    Deliver(message->envelope, message->data, recv);
    if (message->send != nullptr) message->send->done.store(true, std::memory_order_release);
    if (message->storage.bytes) free_storage_.push_back(std::move(message->storage));
    messages_.erase(message);
  }
  event_.NotifyAll();
  return std::nullopt;
}

void Mailbox::Buffer(PendingSend& send) {
  const std::lock_guard lock(mutex_);
  if (send.done.load(std::memory_order_relaxed)) return;
  const auto message = std::find_if(messages_.begin(), messages_.end(),
                                    [&](const Message& m) { return m.send == &send; });
  if (message == messages_.end()) return;
  const int64_t num_bytes = send.envelope.count * SizeBytes(send.envelope.dtype);
  message->storage = TakeStorage(num_bytes);
  CopyBytes(send.data, message->storage.bytes.get(), num_bytes);
  message->data = message->storage.bytes.get();
  message->send = nullptr;
  send.done.store(true, std::memory_order_relaxed);
}

bool Mailbox::Withdraw(PendingSend& send) {
  const std::lock_guard lock(mutex_);
  if (send.done.load(std::memory_order_relaxed)) return false;
  std::erase_if(messages_, [&](const Message& m) { return m.send == &send; });
  return true;
}

bool Mailbox::Withdraw(PendingRecv& recv) {
  const std::lock_guard lock(mutex_);
  if (recv.done.load(std::memory_order_relaxed)) return false;
  std::erase(receives_, &recv);
  return true;
}

Mailbox::Storage Mailbox::TakeStorage(int64_t num_bytes) {
  const auto fits =
      std::find_if(free_storage_.begin(), free_storage_.end(),
                   [&](const Storage& storage) { return storage.capacity_bytes >= num_bytes; });
  if (fits != free_storage_.end()) {
    Storage storage = std::move(*fits);
    free_storage_.erase(fits);
    return storage;
  }
  // One that is too small goes, so that growing messages do not pile up memory.
  if (!free_storage_.empty()) free_storage_.pop_back();
  return {std::make_unique_for_overwrite<std::byte[]>(num_bytes), num_bytes};
}

}  // namespace tessera::engine
