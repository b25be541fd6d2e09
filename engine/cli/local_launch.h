// Runs the ranks of a training as processes of this host and watches over them.
#pragma once

#include <atomic>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace tessera::engine {

// What ended a run.
struct LaunchResult {
  int exit_code = 0;  // of the first process that failed; a signal counts as a shell tells it
  int rank = -1;      // of that process; -1 for none
};

struct LaunchOptions {
  std::vector<std::string> arguments;  // of this process, which those of the ranks are
  int num_ranks = 1;
};

// What a process of RunLocalRanks finds in its environment: it is not to launch others.
bool IsLaunched();

// Runs `num_ranks` processes of this program, the ranks of one run. What they say on stderr goes to
// `err` with the rank before each line, what they print on stdout to `out` as it is. When one fails
// the others have a moment to end as well; then they are made to. `stop` is passed on to them
// as Ctrl-C. Throws base::SystemError where no processes can be had.
LaunchResult RunLocalRanks(const LaunchOptions& options, const std::atomic<bool>& stop,
                           std::ostream& out, std::ostream& err);

// "rank 2 of 4 was ended by signal 9 (Killed)", "rank 2 of 4 has failed with exit code 1".
std::string Describe(const LaunchResult& result, int num_ranks);

// The arguments with which a run goes on from the checkpoints in `save_folder`: instead of where
// `arguments` begin.
std::vector<std::string> ResumingArguments(const std::vector<std::string>& arguments,
                                           const std::string& save_folder);

}  // namespace tessera::engine
