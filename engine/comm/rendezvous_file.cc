#include "engine/comm/rendezvous_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookInterval{20};

std::string FileOf(const std::string& file, int rank) { return base::Concat(file, '.', rank); }

// Appears under its name with all its bytes.
void WriteWhole(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".new";
  {
    std::ofstream stream(unfinished, std::ios::binary | std::ios::trunc);
    stream << text;
    if (!stream.flush()) {
      throw base::SystemError(
          base::Concat("cannot write ", unfinished, ": ", std::strerror(errno)));
    }
  }
  std::error_code error;
  fs::rename(unfinished, path, error);
  if (error) {
    throw base::SystemError(base::Concat("cannot rename ", unfinished, ": ", error.message()));
  }
}

std::optional<std::string> ReadWhole(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

std::string NewNumber() {
  std::random_device random;
  return base::Concat(random(), '-', random());
}

// First line of the answer: the numbers of all ranks but the first.
std::string FirstLine(const std::vector<std::string>& numbers) {
  std::string line;
  for (const std::string& number : numbers) line += number + ' ';
  return line + '\n';
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

void Answer(const ProcessRank& process, const std::string& file, const std::string& message,
            Deadline deadline) {
  Remove(file);
  std::vector<std::string> numbers;
  for (int rank = 1; rank < process.num_ranks; ++rank) {
    std::optional<std::string> number;
    while (!(number = ReadWhole(FileOf(file, rank)))) {
      if (SecondsLeft(deadline) <= 0) {
        throw base::CommError(base::Concat("rank 0 waited for rank ", rank, " at ", file,
                                           " in vain (started by ", process.launcher, ')'));
      }
      std::this_thread::sleep_for(kLookInterval);
    }
    numbers.push_back(*number);
  }
  std::string answer = FirstLine(numbers) + message;
  WriteWhole(file, answer);
  // A file of an earlier run may have been read for a rank that has come since: answer it anew.
  for (int rank = 1; rank < process.num_ranks;) {
    const auto number = ReadWhole(FileOf(file, rank));
    if (!number) {
      ++rank;  // it has removed it: it has read its answer
      continue;
    }
    if (SecondsLeft(deadline) <= 0) {
      throw base::CommError(
          base::Concat("rank 0: rank ", rank, " has not taken its message from ", file));
    }
    if (*number != numbers[static_cast<size_t>(rank - 1)]) {
      numbers[static_cast<size_t>(rank - 1)] = *number;
      WriteWhole(file, FirstLine(numbers) + message);
    }
    std::this_thread::sleep_for(kLookInterval);
  }
  Remove(file);
}

std::string Ask(const ProcessRank& process, const std::string& file, Deadline deadline) {
  const std::string own_file = FileOf(file, process.rank);
  const std::string number = NewNumber();
  WriteWhole(own_file, number);
  while (true) {
    const std::string answer = ReadWhole(file).value_or("");
    const size_t end = answer.find('\n');
    if (end != std::string::npos &&
        (' ' + answer.substr(0, end)).find(' ' + number + ' ') != std::string::npos) {
      Remove(own_file);
      return answer.substr(end + 1);
    }
    if (SecondsLeft(deadline) <= 0) {
      Remove(own_file);
      throw base::CommError(
          base::Concat("rank ", process.rank, " waited for rank 0 at ", file, " in vain"));
    }
    std::this_thread::sleep_for(kLookInterval);
  }
}

}  // namespace

std::string ShareByFile(const ProcessRank& process, const std::string& file,
                        const std::string& message, Deadline deadline) {
  if (process.rank > 0) return Ask(process, file, deadline);
  Answer(process, file, message, deadline);
  return message;
}

}  // namespace tessera::engine
