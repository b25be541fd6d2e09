// Another process of this program and what it prints.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/comm/tcp_socket.h"

namespace tessera::engine {

class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> arguments;    // the program's own path first
    std::vector<std::string> environment;  // "NAME=value", over those of this process
  };

  // Runs this executable. The child ends with this process, and ends all that it has started with
  // itself. Throws base::SystemError.
  explicit ChildProcess(const Options& options);
  // Kills what still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Read-only, never blocking; at their end when the child has closed them.
  const Socket& out() const { return out_; }
  const Socket& err() const { return err_; }

  // As a shell tells it: the exit code, or 128 and the signal that ended it. Nullopt while it runs.
  std::optional<int> ExitCode();
  // Goes to all that the child has started, too.
  void Signal(int signal) const;

 private:
  pid_t pid_ = 0;
  Socket out_;
  Socket err_;
  std::optional<int> exit_code_;
};

}  // namespace tessera::engine
