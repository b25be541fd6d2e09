// What torchrun, mpirun, mpiexec and srun tell a process that they start, one for each rank.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tessera::engine {

struct ProcessRank {
  int rank = 0;
  int num_ranks = 1;
  // Among the processes of its host and how many these are, where the launcher says.
  std::optional<int> local_rank;
  std::optional<int> num_local_ranks;
  std::string launcher;  // "torchrun": for messages
};

// Where the processes meet before they can talk: a port of rank 0's host, or a file that all of
// them see.
struct MeetingPlace {
  std::string address;  // of rank 0's host
  int port = 0;
  std::string file;  // "" for none; comes before address and port
};

// The value of an environment variable; nullopt where it is not set.
using ReadVariable = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> ReadEnvironment(const std::string& name);

// Reads, in this order, the variables of `tessera train -n` (TESSERA_RANK, TESSERA_NUM_RANKS),
// torchrun (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_RANK, _SIZE), MPICH and its kin (PMI_RANK,
// PMI_SIZE) and Slurm's srun (SLURM_PROCID, SLURM_NTASKS), and the local rank and size beside them.
// Nullopt where no launcher started this process, or it started this one alone. Throws
// base::ConfigError for half of a pair, and for numbers that make no sense.
std::optional<ProcessRank> FindProcessRank(const ReadVariable& read);

// TESSERA_MEETING_FILE, else MASTER_ADDR and MASTER_PORT. Under torchrun, whose own store listens
// on that port, the next one. Throws base::ConfigError where neither is set.
MeetingPlace FindMeetingPlace(const ReadVariable& read);

}  // namespace tessera::engine
