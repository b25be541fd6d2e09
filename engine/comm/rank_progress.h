// How far a rank has come in each of its groups and what it waits for: what the ranks of a run tell
// each other when one of them has waited too long, so that all can name the one that is to blame.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/comm_op.h"

namespace tessera::engine {

// Messages with one peer in one direction.
struct MessageProgress {
  int64_t num = 0;   // called so far
  std::string last;  // what both its ends must agree on: "64 fp32 with tag 5"
};

struct GroupProgress {
  static constexpr size_t kNumLast = 8;

  int64_t num_collectives = 0;  // called so far
  // Shapes of the last ones, the newest last: the ranks of a group may be a few apart.
  std::vector<std::string> last_collectives;
  // By the other end's rank in the world.
  std::map<int, MessageProgress> sent;
  std::map<int, MessageProgress> received;
};

struct RankWait {
  std::string group;             // an id that all its ranks use
  std::string name;              // "tp{0,1}": for messages
  CommOp op;                     // all but its header
  std::vector<int> world_ranks;  // of the group; of a message: the peer alone
};

struct RankProgress {
  std::map<std::string, GroupProgress> groups;  // by id
  std::vector<RankWait> waits;
};

std::string SerializeProgress(const RankProgress& progress);
// Throws base::CommError for a text that SerializeProgress has not made.
RankProgress ParseProgress(const std::string& text);

// Whether `other`, how far rank `rank` has come, shows that it has not done its part of what rank
// `waiter` waits for.
bool HasNotCalled(const RankWait& wait, int waiter, int rank, const RankProgress& other);

// Why `wait` of rank `waiter` does not end: "rank 2 has not arrived". `ranks` are the answers of
// all ranks by rank in the world; nullopt for one that has not answered.
std::string Diagnose(const RankWait& wait, int waiter,
                     const std::vector<std::optional<RankProgress>>& ranks);

// "rank 4", "ranks 0, 2-5": runs of more than two by their ends. REQUIRES: ascending, not empty.
std::string ListOfRanks(const std::vector<int>& ranks);

}  // namespace tessera::engine
