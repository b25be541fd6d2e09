// One operation of a group as messages and records name it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/comm/thread_collective.h"

namespace tessera::engine {

struct CommOp {
  enum class Kind : uint8_t { kCollective, kSend, kReceive };
  Kind kind = Kind::kCollective;
  CollectiveHeader header;  // of a message: its type and count alone
  int peer = 0;             // of a message: the other end's rank in the world
  int tag = 0;              // of a message
  // From 1: among the group's collectives, or its messages of this kind with this peer.
  int64_t number = 0;
};

// "all_reduce #3", "receive #2 from rank 1, tag 5".
std::string TitleOf(const CommOp& op);
// "all_reduce(64 fp32, sum)", "64 fp32": what both ends must agree on.
std::string ShapeOf(const CommOp& op);

}  // namespace tessera::engine
