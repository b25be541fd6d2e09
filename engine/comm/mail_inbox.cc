#include "engine/comm/mail_inbox.h"

#include <algorithm>

namespace tessera::engine {

MailInbox::MailInbox(const std::string& ticket, int reader)
    : file_(ticket),
      sender_bell_(reinterpret_cast<EventCount*>(file_.At(kMailBell))),
      last_(reinterpret_cast<MailLetter*>(file_.At(FirstLetterTo(reader)))) {}

int64_t MailInbox::Expect(const MailSlot& slot, int64_t num_letters) {
  const std::lock_guard lock(mutex_);
  Lane& lane = lanes_[slot];
  const int64_t first = lane.num_expected;
  lane.num_expected += num_letters;
  return first;
}

void MailInbox::ReadChain() {
  while (const int64_t next = last_->next.load(std::memory_order_acquire)) {
    // The sender may use the letter again as soon as it is passed.
    last_->state.fetch_or(MailLetter::kPassed, std::memory_order_release);
    last_ = reinterpret_cast<MailLetter*>(file_.At(next));
    lanes_[last_->slot].letters.push_back(last_);
  }
}

std::optional<MailInbox::Mail> MailInbox::Find(const MailSlot& slot, int64_t number) {
  const std::lock_guard lock(mutex_);
  ReadChain();
  const Lane& lane = lanes_.at(slot);
  const auto index = static_cast<size_t>(number - lane.num_gone);
  if (index >= lane.letters.size()) return std::nullopt;
  MailLetter* const letter = lane.letters[index];
  auto* const content = reinterpret_cast<MailContent*>(file_.At(letter->content));
  return Mail{content->bytes(), letter->num_bytes};
}

void MailInbox::Release(const MailSlot& slot, int64_t number) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = lanes_.find(slot);
    Lane& lane = found->second;
    MailLetter*& letter = lane.letters[static_cast<size_t>(number - lane.num_gone)];
    auto* const content = reinterpret_cast<MailContent*>(file_.At(letter->content));
    content->num_readers.fetch_sub(1, std::memory_order_release);
    letter->state.fetch_or(MailLetter::kRead, std::memory_order_release);
    letter = nullptr;
    const auto first_left = std::find_if(lane.letters.begin(), lane.letters.end(),
                                         [](const MailLetter* each) { return each != nullptr; });
    lane.num_gone += first_left - lane.letters.begin();
    lane.letters.erase(lane.letters.begin(), first_left);
    // Nothing of it is left, nor waited for: the next collective has another slot.
    if (lane.letters.empty() && lane.num_gone == lane.num_expected) lanes_.erase(found);
  }
  sender_bell_->NotifyAll();
}

}  // namespace tessera::engine
