#include "engine/checkpoint/checkpoint_choice.h"

#include <cstdint>

#include "cost_model/base/error.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/collective_work.h"
#include "engine/checkpoint/file_io.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;

// What is wrong with this rank's share of the files; "" when nothing is.
std::string DamageOfShare(const std::string& checkpoint, int share, int num_shares) {
  try {
    RequireComplete(checkpoint);
  } catch (const ConfigError& error) {  // an answer here
    return error.what();
  }
  const std::vector<std::string> damage =
      CheckpointReader(checkpoint).FindDamage(share, num_shares);
  return damage.empty() ? "" : damage.front();
}

// The finding of the lowest rank that has one, on all ranks.
std::string DamageOf(const std::string& checkpoint, Communicator& world) {
  std::string damage;
  RunOnAllRanks(world, "checking " + checkpoint,
                [&] { damage = DamageOfShare(checkpoint, world.rank(), world.size()); });
  const int32_t mine = damage.empty() ? world.size() : world.rank();
  int32_t first = world.size();
  world.AllReduce(&mine, &first, 1, base::DType::kInt32, base::ReduceOp::kMin);
  return first == world.size() ? "" : BroadcastText(world, damage, first);
}

// What rank 0 sees, on all ranks: a checkpoint may come and go while they look.
std::vector<std::string> Candidates(const std::string& folder, Communicator& world) {
  std::vector<std::string> paths;
  RunOnFirstRank(world, "looking for a checkpoint", [&] {
    const bool is_checkpoint =
        PathExists(folder + "/" + kManifestFileName) || HasCompleteMark(folder);
    paths = is_checkpoint ? std::vector{folder} : CheckpointsNewestFirst(folder);
    if (paths.empty()) FindCheckpoint(folder);  // throws, saying what was expected
  });
  auto count = static_cast<int64_t>(paths.size());
  world.Broadcast(&count, 1, base::DType::kInt64, /*root=*/0);
  paths.resize(static_cast<size_t>(count));
  for (std::string& path : paths) path = BroadcastText(world, path, /*root=*/0);
  return paths;
}

}  // namespace

CheckpointChoice ChooseCheckpoint(const std::string& folder, Communicator& world) {
  const std::vector<std::string> candidates = Candidates(folder, world);
  CheckpointChoice choice;
  if (candidates.front() == folder) {
    choice.folder = folder;
    return choice;
  }
  std::string problems;
  for (const std::string& candidate : candidates) {
    const std::string damage = DamageOf(candidate, world);
    if (damage.empty()) {
      choice.folder = candidate;
      return choice;
    }
    choice.passed_over.push_back({candidate, damage});
    problems += Concat(problems.empty() ? "" : "; ", damage);
  }
  throw ConfigError(folder, "", Concat("no whole checkpoint (", problems, ")"),
                    "one whose files match their checksums");
}

}  // namespace tessera::engine
