#include "engine/cli/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

constexpr char kThisProgram[] = "/proc/self/exe";
constexpr int kCannotRun = 127;  // as a shell says it

struct Pipe {
  Socket read;
  Socket write;
};

Pipe MakePipe() {
  std::array<int, 2> ends = {};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw base::SystemError(base::Concat("cannot make a pipe: ", std::strerror(errno)));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {Socket(ends[0]), Socket(ends[1])};
}

// This process's variables and those given.
std::vector<std::string> Environment(const std::vector<std::string>& given) {
  std::vector<std::string> variables = given;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('=') + 1);
    const bool is_given = std::any_of(given.begin(), given.end(), [&](const std::string& other) {
      return other.compare(0, name.size(), name) == 0;
    });
    if (!is_given) variables.push_back(text);
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, where only simple calls are safe.
[[noreturn]] void Become(pid_t parent, const Pipe& out, const Pipe& err, char* const* arguments,
                         char* const* environment) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotRun);  // it has gone already
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out.write.descriptor(), STDOUT_FILENO);
  dup2(err.write.descriptor(), STDERR_FILENO);
  // Caught or ignored signals of this process are the child's own affair.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  execve(kThisProgram, arguments, environment);
  _exit(kCannotRun);
}

}  // namespace

ChildProcess::ChildProcess(const Options& options) : out_(-1), err_(-1) {
  Pipe out = MakePipe();
  Pipe err = MakePipe();
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = Environment(options.environment);
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw base::SystemError(base::Concat("cannot fork: ", std::strerror(errno)));
  if (pid_ == 0) Become(parent, out, err, argument_pointers.data(), environment_pointers.data());
  setpgid(pid_, pid_);  // here as well: whoever comes first
  out_ = std::move(out.read);
  err_ = std::move(err.read);
}

ChildProcess::~ChildProcess() {
  Signal(SIGKILL);
  if (!exit_code_) waitpid(pid_, nullptr, 0);
}

std::optional<int> ChildProcess::ExitCode() {
  if (exit_code_) return exit_code_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  constexpr int kSignalBase = 128;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
  return exit_code_;
}

void ChildProcess::Signal(int signal) const { kill(-pid_, signal); }

}  // namespace tessera::engine
