#include "engine/comm/transfers.h"

#include "engine/comm/gloo_transfers.h"
#include "engine/comm/mail_transfers.h"

namespace tessera::engine {
namespace {

// FNV-1a over the bytes of a number.
uint64_t Hash(uint64_t hash, uint64_t number) {
  constexpr uint64_t kPrime = 0x100000001b3;
  for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (number >> (8 * byte) & 0xff)) * kPrime;
  return hash;
}

}  // namespace

uint64_t SlotOf(Traffic traffic, const CommOp& op, int phase) {
  const CollectiveHeader& header = op.header;
  uint64_t hash = 0xcbf29ce484222325;
  const bool is_header = traffic == Traffic::kHeaders || traffic == Traffic::kMessageHeader;
  if (!is_header) {
    hash = Hash(hash, static_cast<uint64_t>(header.count));
    hash = Hash(hash, static_cast<uint64_t>(header.dtype));
    hash = Hash(hash, static_cast<uint64_t>(header.kind));
    hash = Hash(hash, static_cast<uint64_t>(header.op));
    hash = Hash(hash, static_cast<uint64_t>(header.root));
    hash = Hash(hash, static_cast<uint64_t>(phase));
  }
  // 2 bits of traffic, 30 of number or tag (all-to-alls have -1), 32 of hash.
  const bool is_collective = op.kind == CommOp::Kind::kCollective;
  const uint64_t number = static_cast<uint64_t>(is_collective ? op.number : op.tag) & 0x3fffffff;
  return static_cast<uint64_t>(traffic) << 62 | number << 32 | ((hash ^ hash >> 32) & 0xffffffff);
}

std::unique_ptr<Transfers> Transfers::Make(GlooGroup& group, const CommOp& op) {
  if (group.mail() != nullptr) return std::make_unique<MailTransfers>(group, op);
  return std::make_unique<GlooTransfers>(group, op);
}

}  // namespace tessera::engine
