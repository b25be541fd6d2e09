// Mail through memory that ranks share: ranks of one process here, each with a file of its own.
#include "engine/comm/host_mail.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

constexpr MailSlot kSlot = {.group = 1, .slot = 7};
constexpr MailSlot kOtherSlot = {.group = 1, .slot = 8};

// Ranks that have opened each other's mail.
std::vector<std::unique_ptr<HostMail>> Meet(int num_ranks) {
  std::vector<std::unique_ptr<HostMail>> ranks;
  for (int rank = 0; rank < num_ranks; ++rank)
    ranks.push_back(std::make_unique<HostMail>(num_ranks));
  for (int reader = 0; reader < num_ranks; ++reader) {
    for (int sender = 0; sender < num_ranks; ++sender) {
      if (reader != sender) ranks[reader]->Open(sender, ranks[sender]->ticket(), reader);
    }
  }
  return ranks;
}

MailOutbox::Sent SendText(HostMail& mail, const std::string& text, const std::vector<int>& readers,
                          const MailSlot& slot) {
  return mail.Send(text.data(), static_cast<int64_t>(text.size()), readers, slot);
}

// What letter `number` of the slot says; "nothing" where it has not come.
std::string TextOf(MailInbox& inbox, const MailSlot& slot, int64_t number) {
  const auto mail = inbox.Find(slot, number);
  if (!mail) return "nothing";
  return {reinterpret_cast<const char*>(mail->bytes), static_cast<size_t>(mail->num_bytes)};
}

TEST(SharedFileTest, IsFoundByItsTicketAlone) {
  SharedFile file;
  std::memcpy(file.At(4096), "here", 4);
  std::memcpy(file.At(SharedFile::kRegionBytes + 8), "there", 5);
  SharedFile other(file.ticket());
  EXPECT_EQ(std::memcmp(other.At(4096), "here", 4), 0);
  EXPECT_EQ(std::memcmp(other.At(SharedFile::kRegionBytes + 8), "there", 5), 0);
  const std::string host = SharedFile::HostOf(file.ticket());
  EXPECT_THROW(SharedFile("elsewhere" + file.ticket()), base::SystemError);
  EXPECT_THROW(SharedFile(file.ticket() + "0"), base::SystemError);  // another random number
  EXPECT_THROW(SharedFile(host + " 1 999999 1 1"), base::SystemError);
  EXPECT_THROW(SharedFile{host}, base::SystemError);
}

// Where it would be killed for its size.
TEST(SharedFileTest, IsNoneWhereFilesMustBeSmall) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = rlim_t{1} << 30;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(SharedFile(), base::SystemError);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_NO_THROW(SharedFile());
}

TEST(HostMailTest, LettersOfASlotComeInTheOrderOfSendingToWhoExpectsThemFirst) {
  const auto ranks = Meet(2);
  MailInbox& inbox = ranks[1]->From(0);
  SendText(*ranks[0], "a", {1}, kSlot);  // before anybody expects it
  SendText(*ranks[0], "other", {1}, kOtherSlot);
  const int64_t first = inbox.Expect(kSlot, 2);
  const int64_t second = inbox.Expect(kSlot, 1);
  const int64_t other = inbox.Expect(kOtherSlot, 1);
  EXPECT_EQ(TextOf(inbox, kSlot, second), "nothing");
  SendText(*ranks[0], "", {1}, kSlot);
  SendText(*ranks[0], "c", {1}, kSlot);
  EXPECT_EQ(TextOf(inbox, kSlot, second), "c");
  inbox.Release(kSlot, second);
  EXPECT_EQ(TextOf(inbox, kOtherSlot, other), "other");
  EXPECT_EQ(TextOf(inbox, kSlot, first), "a");
  EXPECT_EQ(TextOf(inbox, kSlot, first + 1), "");
}

TEST(HostMailTest, AContentIsReadWhenAllItsReadersHaveReadIt) {
  const auto ranks = Meet(3);
  const std::string text(1000, 'x');
  const MailOutbox::Sent sent = SendText(*ranks[0], text, {1, 2}, kSlot);
  for (const int reader : {1, 2}) {
    EXPECT_FALSE(ranks[0]->outbox().IsRead(sent));
    EXPECT_TRUE(ranks[0]->outbox().HasUnreadBeyond(0));
    MailInbox& inbox = ranks[reader]->From(0);
    const int64_t number = inbox.Expect(kSlot, 1);
    EXPECT_EQ(TextOf(inbox, kSlot, number), text);
    inbox.Release(kSlot, number);
  }
  EXPECT_TRUE(ranks[0]->outbox().IsRead(sent));
  EXPECT_FALSE(ranks[0]->outbox().HasUnreadBeyond(0));
}

// Also behind a letter that nobody reads.
TEST(HostMailTest, MemoryIsUsedAgain) {
  const auto ranks = Meet(2);
  const std::string text(kMaxMailBytes, 'x');
  const MailOutbox::Sent unread = SendText(*ranks[0], text, {1}, kOtherSlot);
  MailInbox& inbox = ranks[1]->From(0);
  std::set<const void*> places;
  for (int i = 0; i < 2000; ++i) {
    places.insert(SendText(*ranks[0], text, {1}, kSlot).content);
    const int64_t number = inbox.Expect(kSlot, 1);
    ASSERT_EQ(TextOf(inbox, kSlot, number), text);
    inbox.Release(kSlot, number);
  }
  EXPECT_LE(places.size(), 3U);
  EXPECT_FALSE(ranks[0]->outbox().IsRead(unread));
  EXPECT_EQ(TextOf(inbox, kOtherSlot, inbox.Expect(kOtherSlot, 1)), text);
}

}  // namespace
}  // namespace tessera::engine
