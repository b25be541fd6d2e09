#include "engine/comm/rendezvous_file.h"

#include <algorithm>
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
#include "engine/comm/attendance.h"

namespace tessera::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookInterval{20};
// The last character of an answer's first line: what follows.
constexpr char kMessageFollows = '.';
constexpr char kReasonFollows = '!';

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

// What a rank leaves: its number, then its host.
struct Note {
  std::string number;
  std::string host;
};

std::optional<Note> ReadNote(const std::string& file, int rank) {
  const std::optional<std::string> text = ReadWhole(FileOf(file, rank));
  if (!text) return std::nullopt;
  const size_t end = std::min(text->find(' '), text->size());
  return Note{text->substr(0, end), end < text->size() ? text->substr(end + 1) : "?"};
}

// First line of an answer: the numbers of those whom it is for.
std::string FirstLine(const std::vector<std::string>& numbers, char what_follows) {
  std::string line;
  for (const std::string& number : numbers) line += number + ' ';
  return line + what_follows + '\n';
}

// Tells the ranks that have come who has not.
[[noreturn]] void GiveUp(const ProcessRank& process, const std::string& file) {
  Attendance attendance(process);
  std::vector<std::string> numbers;
  for (int rank = 1; rank < process.num_ranks; ++rank) {
    const auto note = ReadNote(file, rank);
    if (!note) continue;
    attendance.Add(rank, note->host);
    numbers.push_back(note->number);
  }
  const std::string missing = attendance.WhoIsMissing();
  WriteWhole(file, FirstLine(numbers, kReasonFollows) + missing);
  throw base::CommError(base::Concat("rank 0 waited at ", file, " in vain: ", missing));
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

void WriteAnswer(const ProcessRank& process, const std::string& file, const std::string& message,
                 Deadline deadline) {
  Remove(file);
  std::vector<std::string> numbers;
  for (int rank = 1; rank < process.num_ranks; ++rank) {
    std::optional<Note> note;
    while (!(note = ReadNote(file, rank))) {
      if (SecondsLeft(deadline) <= 0) GiveUp(process, file);
      std::this_thread::sleep_for(kLookInterval);
    }
    numbers.push_back(note->number);
  }
  const std::string answer = FirstLine(numbers, kMessageFollows) + message;
  WriteWhole(file, answer);
  // A file of an earlier run may have been read for a rank that has come since: answer it anew.
  for (int rank = 1; rank < process.num_ranks;) {
    const auto note = ReadNote(file, rank);
    if (!note) {
      ++rank;  // it has removed it: it has read its answer
      continue;
    }
    if (SecondsLeft(deadline) <= 0) {
      throw base::CommError(
          base::Concat("rank 0: rank ", rank, " has not taken its message from ", file));
    }
    if (note->number != numbers[static_cast<size_t>(rank - 1)]) {
      numbers[static_cast<size_t>(rank - 1)] = note->number;
      WriteWhole(file, FirstLine(numbers, kMessageFollows) + message);
    }
    std::this_thread::sleep_for(kLookInterval);
  }
  Remove(file);
}

std::string Ask(const ProcessRank& process, const std::string& file, Deadline deadline) {
  const std::string own_file = FileOf(file, process.rank);
  const std::string number = NewNumber();
  WriteWhole(own_file, number + ' ' + OwnHostName());
  const Deadline last = WithAnswerGrace(deadline);
  const std::string who = base::Concat("rank ", process.rank, " waited for rank 0 at ", file);
  while (true) {
    const std::string answer = ReadWhole(file).value_or("");
    const size_t end = answer.find('\n');
    if (end != std::string::npos &&
        (' ' + answer.substr(0, end)).find(' ' + number + ' ') != std::string::npos) {
      Remove(own_file);
      const std::string text = answer.substr(end + 1);
      if (answer[end - 1] == kMessageFollows) return text;
      throw base::CommError(base::Concat(who, ", which waited in vain: ", text));
    }
    if (SecondsLeft(last) <= 0) {
      Remove(own_file);
      throw base::CommError(base::Concat(who, " in vain"));
    }
    std::this_thread::sleep_for(kLookInterval);
  }
}

}  // namespace

std::string ShareByFile(const ProcessRank& process, const std::string& file,
                        const std::string& message, Deadline deadline) {
  if (process.rank > 0) return Ask(process, file, deadline);
  WriteAnswer(process, file, message, deadline);
  return message;
}

}  // namespace tessera::engine
