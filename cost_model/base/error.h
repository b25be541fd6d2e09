// The errors that cross module borders. Only main turns them into a message and an exit code.
#pragma once

#include <stdexcept>
#include <string>

#include "cost_model/base/check.h"

namespace tessera::base {

// Process exit codes of every command.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailure = 1,
  kExitWrongInput = 2,
  kExitInfeasible = 3,
  kExitPeerLost = 75,
};

// Wrong user input: a flag, a file, a key. `where` is the file (or the flag), `key` a JSON pointer,
// a tensor or a byte offset inside it (may be empty).
class ConfigError : public std::runtime_error {
 public:
  ConfigError(const std::string& where, const std::string& key, const std::string& found,
              const std::string& expected)
      : std::runtime_error(Concat(where, key.empty() ? "" : ": ", key, ": found ", found,
                                  ", expected ", expected)) {}
  explicit ConfigError(const std::string& message) : std::runtime_error(message) {}
};

// A layout that breaks a rule or a limit, met where only a feasible one can go on (exit code 3).
class InfeasibleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The outside world broke: a disk, a system call. The message names the call and the path.
class SystemError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A peer or a link failed: the message names rank, group, operation and peer (exit code 75).
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tessera::base
