// Runs the built commands as a user does: a process, its output, its exit code.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace tessera::testing {

// Removed with all that lies in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  // `name` may lie in folders that are not there yet.
  void Write(const std::string& name, const std::string& content) const;
  std::string Read(const std::string& name) const;
  // Writes `to` as `from` with the first `found` replaced, which must be there.
  void WriteEdited(const std::string& from, const std::string& to, const std::string& found,
                   const std::string& replacement) const;

 private:
  std::string path_;
};

struct CommandResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
  // The lines on stderr that tell an error, without "tessera: error: ".
  std::vector<std::string> ErrorLines() const;
};

// `tessera` at work, with `folder` as its working directory. Killed when it runs for minutes or
// outlives this object.
class RunningCommand {
 public:
  // `line`: arguments, separated by spaces.
  RunningCommand(const std::string& line, const TemporaryFolder& folder);
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  // As Ctrl-C does.
  void Interrupt() const;
  // As a machine that goes down does: no chance to tidy up.
  void Kill() const;
  pid_t pid() const { return pid_; }
  bool HasEnded();
  CommandResult Wait();

 private:
  std::FILE* out_;
  std::FILE* err_;
  pid_t pid_ = 0;  // 0: ended
  int status_ = 0;
};

CommandResult RunCommand(const std::string& line, const TemporaryFolder& folder);

}  // namespace tessera::testing
