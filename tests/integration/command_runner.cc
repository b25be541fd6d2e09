#include "tests/integration/command_runner.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "cost_model/base/check.h"

namespace tessera::testing {
namespace {

constexpr char kErrorMark[] = "tessera: error: ";
// Far above what any of these commands takes on a busy machine.
constexpr std::chrono::seconds kTimeLimit{180};

std::vector<std::string> Words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string Content(std::FILE* file) {
  std::rewind(file);
  std::string content;
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), file)) {
    content.append(buffer, count);
  }
  return content;
}

pid_t Spawn(const std::vector<std::string>& words, const std::string& folder, int out, int err) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot run " + words[0] + ": " + std::strerror(error));
  return pid;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tessera_XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryFolder::Write(const std::string& name, const std::string& content) const {
  const std::filesystem::path file = Path(name);
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

std::string TemporaryFolder::Read(const std::string& name) const {
  std::ifstream file(Path(name), std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + Path(name));
  return {std::istreambuf_iterator<char>(file), {}};
}

void TemporaryFolder::WriteEdited(const std::string& from, const std::string& to,
                                  const std::string& found, const std::string& replacement) const {
  std::string content = Read(from);
  const size_t at = content.find(found);
  TESSERA_CHECK(at != std::string::npos, "no ", found, " in ", from);
  Write(to, content.replace(at, found.size(), replacement));
}

std::vector<std::string> CommandResult::ErrorLines() const {
  std::istringstream stream(err);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(kErrorMark)) lines.push_back(line.substr(std::strlen(kErrorMark)));
  }
  return lines;
}

RunningCommand::RunningCommand(const std::string& line, const TemporaryFolder& folder)
    : out_(std::tmpfile()), err_(std::tmpfile()) {
  TESSERA_CHECK(out_ != nullptr && err_ != nullptr, "no temporary files");
  std::vector<std::string> words = Words(line);
  words.insert(words.begin(), std::string(TESSERA_BIN_DIR) + "/tessera");
  pid_ = Spawn(words, folder.path(), fileno(out_), fileno(err_));
}

RunningCommand::~RunningCommand() {
  if (!HasEnded()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
  }
  std::fclose(out_);
  std::fclose(err_);
}

void RunningCommand::Interrupt() const {
  if (pid_ != 0) kill(pid_, SIGINT);
}

void RunningCommand::Kill() const {
  if (pid_ != 0) kill(pid_, SIGKILL);
}

bool RunningCommand::HasEnded() {
  if (pid_ != 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = 0;
  return pid_ == 0;
}

CommandResult RunningCommand::Wait() {
  const auto end = std::chrono::steady_clock::now() + kTimeLimit;
  while (!HasEnded()) {
    if (std::chrono::steady_clock::now() > end) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1,
          .out = Content(out_),
          .err = Content(err_)};
}

CommandResult RunCommand(const std::string& line, const TemporaryFolder& folder) {
  return RunningCommand(line, folder).Wait();
}

}  // namespace tessera::testing
