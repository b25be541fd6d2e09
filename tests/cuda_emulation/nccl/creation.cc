// Communicators come into being: ncclCommInitRank and ncclCommSplit, where ranks wait for ranks.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/cuda_emulation/nccl/communicator.h"
#include "tests/cuda_emulation/nccl/settings.h"

namespace tessera::cuda_emulation::nccl {

// The ranks of one id on their way to a communicator.
struct Assembly {
  int num_ranks = 0;
  std::vector<std::shared_ptr<RankState>> ranks;  // null: not come yet
  std::shared_ptr<Clique> clique;
  int num_come = 0;
  std::string problem;
};

struct SplitRound {
  struct Choice {
    int color = 0;
    int key = 0;
    int rank = 0;
    int device = 0;
    std::string name;  // of the communicator to be
  };
  std::vector<Choice> choices;
  std::map<int, std::shared_ptr<RankState>> results;  // by rank in the parent; absent: no color
  bool is_complete = false;
};

namespace {

struct Assemblies {
  std::mutex mutex;
  std::condition_variable condition;
  int64_t next_id = 1;
  std::map<std::string, std::shared_ptr<Assembly>> by_id;  // an entry stays: ids are used once
};

Assemblies& AllAssemblies() {
  static Assemblies assemblies;
  return assemblies;
}

std::string KeyOf(const ncclUniqueId& id) { return {id.internal, sizeof(id.internal)}; }

template <typename Condition>
bool WaitFor(std::condition_variable& variable, std::unique_lock<std::mutex>& lock,
             Condition condition) {
  return variable.wait_for(lock, std::chrono::duration<double>(GetNcclSettings().timeout_s),
                           condition);
}

// What is wrong with a rank that comes; empty if nothing is.
std::string CheckNewcomer(const Assembly& assembly, int num_ranks, int rank, int device) {
  if (assembly.num_ranks != num_ranks) {
    return "rank " + std::to_string(rank) + " expects " + std::to_string(num_ranks) +
           " ranks, others " + std::to_string(assembly.num_ranks);
  }
  if (assembly.ranks[rank] != nullptr) return "rank " + std::to_string(rank) + " came twice";
  for (const auto& other : assembly.ranks) {
    if (other != nullptr && other->device == device && !GetNcclSettings().shared_devices) {
      return "Duplicate GPU detected: ranks " + std::to_string(other->rank) + " and " +
             std::to_string(rank) + " both on device " + std::to_string(device);
    }
  }
  return "";
}

std::string MissingRanks(const Assembly& assembly) {
  std::string text = "ncclCommInitRank: of " + std::to_string(assembly.num_ranks) +
                     " ranks these did not come in time:";
  for (int rank = 0; rank < assembly.num_ranks; ++rank) {
    if (assembly.ranks[rank] == nullptr) text += " " + std::to_string(rank);
  }
  return text;
}

// Waits for all ranks of the id. Returns this rank's state, or null and the problem.
std::shared_ptr<RankState> Assemble(const ncclUniqueId& id, int num_ranks, int rank, int device,
                                    const char* name, std::string* problem) {
  Assemblies& all = AllAssemblies();
  std::unique_lock lock(all.mutex);
  const auto found = all.by_id.find(KeyOf(id));
  if (found == all.by_id.end()) {
    *problem = "ncclCommInitRank: the id does not come from ncclGetUniqueId";
    return nullptr;
  }
  if (found->second == nullptr) {
    found->second = std::make_shared<Assembly>();
    found->second->num_ranks = num_ranks;
    found->second->ranks.resize(static_cast<size_t>(num_ranks));
    found->second->clique = std::make_shared<Clique>(
        name != nullptr ? name : "communicator " + std::to_string(all.next_id++), num_ranks);
  }
  const std::shared_ptr<Assembly> assembly = found->second;
  if (assembly->problem.empty()) {
    assembly->problem = CheckNewcomer(*assembly, num_ranks, rank, device);
  }
  if (assembly->problem.empty()) {
    auto state = std::make_shared<RankState>();
    state->clique = assembly->clique;
    state->rank = rank;
    state->device = device;
    assembly->ranks[rank] = state;
    ++assembly->num_come;
  }
  all.condition.notify_all();
  const auto is_over = [&] {
    return !assembly->problem.empty() || assembly->num_come == assembly->num_ranks;
  };
  if (!WaitFor(all.condition, lock, is_over)) {
    assembly->problem = MissingRanks(*assembly);
    all.condition.notify_all();
  }
  *problem = assembly->problem;
  return problem->empty() ? assembly->ranks[rank] : nullptr;
}

// Forms the new cliques from everybody's choices.
void CompleteRound(SplitRound& round) {
  std::map<int, std::vector<SplitRound::Choice>> by_color;
  for (const SplitRound::Choice& choice : round.choices) {
    if (choice.color >= 0) by_color[choice.color].push_back(choice);
  }
  for (auto& [color, members] : by_color) {
    std::sort(members.begin(), members.end(), [](const auto& x, const auto& y) {
      return std::pair(x.key, x.rank) < std::pair(y.key, y.rank);
    });
    const auto clique = std::make_shared<Clique>(members[0].name, static_cast<int>(members.size()));
    for (size_t i = 0; i < members.size(); ++i) {
      auto state = std::make_shared<RankState>();
      state->clique = clique;
      state->rank = static_cast<int>(i);
      state->device = members[i].device;
      round.results[members[i].rank] = state;
    }
  }
  round.is_complete = true;
}

// Waits for all ranks' choices. Returns this rank's new state (null without a color), or the
// problem.
std::shared_ptr<RankState> JoinSplit(RankState& rank, int color, int key, const char* name,
                                     std::string* problem) {
  Clique& clique = *rank.clique;
  std::unique_lock lock(clique.mutex());
  if (rank.num_issued != rank.num_completed) {
    // NCCL user guide, ncclCommSplit: no operation may be outstanding on the communicator.
    *problem = "ncclCommSplit: operations of the communicator are pending";
    return nullptr;
  }
  const int64_t number = rank.num_splits++;
  std::shared_ptr<SplitRound>& entry = clique.split_rounds()[number];
  if (entry == nullptr) entry = std::make_shared<SplitRound>();
  const std::shared_ptr<SplitRound> round = entry;
  round->choices.push_back({color, key, rank.rank, rank.device,
                            name ? name : clique.name() + "/" + std::to_string(color)});
  if (static_cast<int>(round->choices.size()) == clique.num_ranks()) {
    CompleteRound(*round);
    clique.split_rounds().erase(number);
    clique.condition().notify_all();
  }
  const auto is_over = [&] { return round->is_complete || rank.is_aborted; };
  const bool in_time = WaitFor(clique.condition(), lock, is_over);
  if (!round->is_complete && rank.is_aborted) {
    *problem = "ncclCommSplit: the communicator was aborted";
    return nullptr;
  }
  if (!in_time) {
    *problem = "ncclCommSplit: only " + std::to_string(round->choices.size()) + " of " +
               std::to_string(clique.num_ranks()) + " ranks called it in time:";
    for (const SplitRound::Choice& choice : round->choices) {
      *problem += " " + std::to_string(choice.rank);
    }
    return nullptr;
  }
  const auto found = round->results.find(rank.rank);
  return found == round->results.end() ? nullptr : found->second;
}

ncclResult_t CheckConfig(const ncclConfig_t* config) {
  if (config == nullptr) return ncclSuccess;
  const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
  if (config->size != fresh.size || config->magic != fresh.magic) {
    return RefuseCall(ncclInvalidArgument, nullptr, "a configuration without its initializer");
  }
  if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 1) {
    return RefuseCall(ncclInvalidUsage, nullptr, "the double knows blocking communicators only");
  }
  return ncclSuccess;
}

}  // namespace
}  // namespace tessera::cuda_emulation::nccl

using namespace tessera::cuda_emulation;        // NOLINT: the library's own names are global
using namespace tessera::cuda_emulation::nccl;  // NOLINT

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Assemblies& all = AllAssemblies();
  const std::lock_guard lock(all.mutex);
  const std::string text = "emulated id " + std::to_string(all.next_id++);
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, text.data(), text.size());
  all.by_id[KeyOf(*id)] = nullptr;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, num_ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (comm == nullptr || num_ranks < 1 || rank < 0 || rank >= num_ranks) {
    return RefuseCall(ncclInvalidArgument, nullptr, "ncclCommInitRank: rank outside of its world");
  }
  *comm = nullptr;
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return result;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return ncclUnhandledCudaError;
  std::string problem;
  const char* const name = config != nullptr ? config->commName : nullptr;
  auto state = Assemble(id, num_ranks, rank, device, name, &problem);
  if (state == nullptr) {
    const bool is_late = problem.find("in time") != std::string::npos;
    return RefuseCall(is_late ? ncclSystemError : ncclInvalidUsage, nullptr, problem);
  }
  *comm = MakeHandle(std::move(state));
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* split,
                           ncclConfig_t* config) {
  const auto rank = RankOf(comm);
  if (rank == nullptr || split == nullptr) {
    return RefuseCall(ncclInvalidArgument, nullptr, "ncclCommSplit: no communicator");
  }
  *split = nullptr;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return RefuseCall(ncclInvalidArgument, rank.get(), "ncclCommSplit: negative color");
  }
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return result;
  std::string problem;
  auto state = JoinSplit(*rank, color, key, config ? config->commName : nullptr, &problem);
  if (!problem.empty()) {
    const bool is_late = problem.find("in time") != std::string::npos;
    return RefuseCall(is_late ? ncclSystemError : ncclInvalidUsage, rank.get(), problem);
  }
  if (state != nullptr) *split = MakeHandle(std::move(state));
  return ncclSuccess;
}
