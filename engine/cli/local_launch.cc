#include "engine/cli/local_launch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <ostream>

#include "cost_model/base/error.h"
#include "engine/cli/child_process.h"
#include "engine/comm/launch_environment.h"
#include "engine/comm/tcp_socket.h"

namespace tessera::engine {
namespace {

constexpr char kRankVariable[] = "TESSERA_RANK";
constexpr int kSignalBase = 128;
// How often the processes are looked at when they say nothing.
constexpr double kLookIntervalS = 0.05;
// After the first failure: until the others are asked, and then made, to end. A survivor needs two
// seconds at most to find out who has failed and to end by itself.
constexpr double kEndPatienceS = 3;
constexpr double kTermPatienceS = 2;

// A folder of this run's own, where its ranks meet.
class MeetingFolder {
 public:
  MeetingFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera-run-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw base::SystemError(base::Concat("cannot make ", pattern, ": ", std::strerror(errno)));
    }
    path_ = pattern;
  }
  ~MeetingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MeetingFolder(const MeetingFolder&) = delete;
  MeetingFolder& operator=(const MeetingFolder&) = delete;
  std::string file() const { return path_ / "meeting"; }

 private:
  std::filesystem::path path_;
};

// One rank's process with what it has said and not yet been passed on.
struct Rank {
  std::unique_ptr<ChildProcess> process;
  std::string line;
  bool out_is_open = true;
  bool err_is_open = true;
};

class LocalRanks {
 public:
  LocalRanks(const LaunchOptions& options, const std::atomic<bool>& stop, std::ostream& out,
             std::ostream& err)
      : stop_(stop), out_(out), err_(err), ranks_(static_cast<size_t>(options.num_ranks)) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::vector<std::string> environment = {
          base::Concat(kRankVariable, '=', rank), base::Concat("TESSERA_NUM_RANKS=", ranks_.size()),
          "TESSERA_MEETING_FILE=" + folder_.file()};
      ranks_[rank].process = std::make_unique<ChildProcess>(
          ChildProcess::Options{.arguments = options.arguments, .environment = environment});
    }
  }

  LaunchResult Run() {
    while (NoteEnds() > 0) {
      PassOutput(DeadlineAfter(kLookIntervalS));
      if (stop_.load() && !is_stopped_) {
        is_stopped_ = true;
        SignalAll(SIGINT);
      }
      EndOthers();
    }
    while (PassOutput(DeadlineAfter(0))) {
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].line.empty()) PassLine(rank, ranks_[rank].line);
    }
    return result_;
  }

 private:
  // Returns how many still run.
  int NoteEnds() {
    int num_running = 0;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::optional<int> exit_code = ranks_[rank].process->ExitCode();
      if (!exit_code) {
        ++num_running;
        continue;
      }
      if (*exit_code == 0) continue;
      if (result_.rank < 0) first_failure_ = DeadlineAfter(0);
      // A rank that has lost a peer may end before the one it has lost, or be seen before it.
      const bool explains_more = result_.exit_code == base::kExitPeerLost &&
                                 *exit_code != base::kExitPeerLost && signals_sent_ == 0;
      if (result_.rank < 0 || explains_more) {
        result_ = {.exit_code = *exit_code, .rank = static_cast<int>(rank)};
      }
    }
    return num_running;
  }

  void EndOthers() {
    if (result_.rank < 0) return;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - first_failure_;
    if (signals_sent_ == 0 && since.count() > kEndPatienceS) {
      signals_sent_ = 1;
      SignalAll(SIGTERM);
    } else if (signals_sent_ == 1 && since.count() > kEndPatienceS + kTermPatienceS) {
      signals_sent_ = 2;
      SignalAll(SIGKILL);
    }
  }

  void SignalAll(int signal) {
    for (Rank& rank : ranks_) {
      if (!rank.process->ExitCode()) rank.process->Signal(signal);
    }
  }

  // Whether there was any, or the end of any, by the deadline.
  bool PassOutput(Deadline deadline) {
    struct Source {
      size_t rank;
      bool is_out;
    };
    std::vector<Source> sources;
    std::vector<const Socket*> sockets;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].out_is_open) {
        sources.push_back({rank, true});
        sockets.push_back(&ranks_[rank].process->out());
      }
      if (ranks_[rank].err_is_open) {
        sources.push_back({rank, false});
        sockets.push_back(&ranks_[rank].process->err());
      }
    }
    const std::vector<size_t> ready = AwaitAny(sockets, deadline);
    for (const size_t source : ready) Pass(sources[source].rank, sources[source].is_out);
    return !ready.empty();
  }

  void Pass(size_t index, bool is_out) {
    Rank& rank = ranks_[index];
    std::array<char, 4096> chunk;
    const int descriptor = (is_out ? rank.process->out() : rank.process->err()).descriptor();
    const ssize_t num_bytes = read(descriptor, chunk.data(), chunk.size());
    if (num_bytes == 0) (is_out ? rank.out_is_open : rank.err_is_open) = false;
    if (num_bytes <= 0) return;
    const std::string text(chunk.data(), static_cast<size_t>(num_bytes));
    if (is_out) {
      out_ << text << std::flush;
      return;
    }
    rank.line += text;
    for (size_t end = 0; (end = rank.line.find('\n')) != std::string::npos;) {
      PassLine(index, rank.line.substr(0, end));
      rank.line.erase(0, end + 1);
    }
  }

  void PassLine(size_t rank, const std::string& line) const {
    if (ranks_.size() > 1) err_ << '[' << rank << "] ";
    err_ << line << std::endl;
  }

  const std::atomic<bool>& stop_;
  std::ostream& out_;
  std::ostream& err_;
  const MeetingFolder folder_;
  std::vector<Rank> ranks_;
  LaunchResult result_;
  Deadline first_failure_;
  int signals_sent_ = 0;
  bool is_stopped_ = false;
};

}  // namespace

bool IsLaunched() { return ReadEnvironment(kRankVariable).has_value(); }

LaunchResult RunLocalRanks(const LaunchOptions& options, const std::atomic<bool>& stop,
                           std::ostream& out, std::ostream& err) {
  return LocalRanks(options, stop, out, err).Run();
}

std::string Describe(const LaunchResult& result, int num_ranks) {
  const std::string who = base::Concat("rank ", result.rank, " of ", num_ranks);
  if (result.exit_code <= kSignalBase) {
    return base::Concat(who, " has failed with exit code ", result.exit_code);
  }
  const int signal = result.exit_code - kSignalBase;
  return base::Concat(who, " was ended by signal ", signal, " (", strsignal(signal), ')');
}

std::vector<std::string> ResumingArguments(const std::vector<std::string>& arguments,
                                           const std::string& save_folder) {
  std::vector<std::string> resuming;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::string name = argument.substr(0, argument.find('='));
    if (name != "--init" && name != "--resume") {
      resuming.push_back(argument);
    } else if (name == argument) {
      ++i;  // its value
    }
  }
  resuming.push_back("--resume");
  resuming.push_back(save_folder);
  return resuming;
}

}  // namespace tessera::engine
