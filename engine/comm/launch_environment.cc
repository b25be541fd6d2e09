#include "engine/comm/launch_environment.h"

#include <array>
#include <charconv>
#include <cstdlib>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

constexpr int kMaxPort = 65535;

struct Launcher {
  const char* name;
  const char* rank;
  const char* num_ranks;
  const char* local_rank;
  const char* num_local_ranks;  // "" where it does not tell
};
constexpr std::array<Launcher, 5> kLaunchers = {
    Launcher{"tessera train -n", "TESSERA_RANK", "TESSERA_NUM_RANKS", "TESSERA_RANK",
             "TESSERA_NUM_RANKS"},
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    Launcher{"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"mpiexec (PMI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    Launcher{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""}};

// The variable's number in [low, high]; throws base::ConfigError for anything else.
int NumberOf(const char* name, const std::string& text, int low, int high) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < low || number > high) {
    throw base::ConfigError("the environment", name, "\"" + text + "\"",
                            base::Concat("a number from ", low, " to ", high));
  }
  return number;
}

// A batch script, as opposed to what srun starts in it, has Slurm's variables too: it is rank 0 of
// a job whose other tasks do not exist.
bool IsSlurmBatchScript(const ReadVariable& read) {
  return read("SLURM_JOB_ID") && !read("SLURM_STEP_ID");
}

}  // namespace

std::optional<std::string> ReadEnvironment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::optional<ProcessRank> FindProcessRank(const ReadVariable& read) {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = read(launcher.rank);
    const auto num_ranks = read(launcher.num_ranks);
    if (!rank && !num_ranks) continue;
    const bool is_slurm = &launcher == &kLaunchers.back();
    if (is_slurm && (IsSlurmBatchScript(read) || !rank || !num_ranks)) return std::nullopt;
    if (!rank || !num_ranks) {
      throw base::ConfigError("the environment", rank ? launcher.num_ranks : launcher.rank,
                              "nothing",
                              base::Concat("a number, as ", launcher.name, " sets it with ",
                                           rank ? launcher.rank : launcher.num_ranks));
    }
    constexpr int kMaxRanks = 1 << 24;
    ProcessRank process = {.launcher = launcher.name};
    process.num_ranks = NumberOf(launcher.num_ranks, *num_ranks, 1, kMaxRanks);
    process.rank = NumberOf(launcher.rank, *rank, 0, process.num_ranks - 1);
    if (process.num_ranks == 1) return std::nullopt;
    if (const auto local_rank = read(launcher.local_rank)) {
      process.local_rank = NumberOf(launcher.local_rank, *local_rank, 0, process.num_ranks - 1);
    }
    if (const auto num_local = read(launcher.num_local_ranks)) {
      process.num_local_ranks =
          NumberOf(launcher.num_local_ranks, *num_local, 1, process.num_ranks);
    }
    return process;
  }
  return std::nullopt;
}

MeetingPlace FindMeetingPlace(const ReadVariable& read) {
  MeetingPlace place;
  if (const auto file = read("TESSERA_MEETING_FILE"); file && !file->empty()) {
    place.file = *file;
    return place;
  }
  for (const char* const name : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (read(name)) continue;
    throw base::ConfigError("the environment", name, "nothing",
                            "the host and a free port of rank 0 in MASTER_ADDR and MASTER_PORT, or "
                            "a path that all ranks see in TESSERA_MEETING_FILE");
  }
  place.address = *read("MASTER_ADDR");
  place.port = NumberOf("MASTER_PORT", *read("MASTER_PORT"), 1, kMaxPort - 1);
  if (read("TORCHELASTIC_USE_AGENT_STORE") == "True") ++place.port;
  return place;
}

}  // namespace tessera::engine
