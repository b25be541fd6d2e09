#include "engine/comm/flight_recorder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>

#include "cost_model/base/check.h"

namespace tessera::engine {

int64_t FlightRecorder::Begin(int64_t step, const std::string& group, const CommOp& op) {
  Entry& entry = entries_[static_cast<size_t>(num_begun_ % kNumEntries)];
  entry.number = num_begun_;
  entry.step = step;
  entry.group = group;
  entry.op = op;
  entry.begin = Clock::now();
  entry.is_over = false;
  return num_begun_++;
}

void FlightRecorder::End(int64_t number) {
  Entry& entry = entries_[static_cast<size_t>(number % kNumEntries)];
  if (entry.number != number) return;  // others have taken its place
  entry.end = Clock::now();
  entry.is_over = true;
}

bool FlightRecorder::Write(const std::string& path, int rank, const std::string& reason) const {
  std::ofstream file(path, std::ios::trunc);
  const Clock::time_point now = Clock::now();
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  file << "rank " << rank << ": " << reason << '\n'
       << "operation\tstep\tgroup\tname\tshape\tcalled (s ago)\ttook (ms)\n"
       << std::fixed << std::setprecision(3);
  for (int64_t number = std::max<int64_t>(0, num_begun_ - kNumEntries); number < num_begun_;
       ++number) {
    const Entry& entry = entries_[static_cast<size_t>(number % kNumEntries)];
    file << entry.number << '\t' << entry.step << '\t' << entry.group << '\t' << TitleOf(entry.op)
         << '\t' << ShapeOf(entry.op) << '\t' << seconds(now - entry.begin) << '\t';
    constexpr double kMillisecondsPerSecond = 1e3;
    if (entry.is_over) {
      file << seconds(entry.end - entry.begin) * kMillisecondsPerSecond << '\n';
    } else {
      file << "not over\n";
    }
  }
  return static_cast<bool>(file.flush());
}

std::string FlightRecordPath(const std::string& folder, int rank) {
  return (std::filesystem::path(folder) / base::Concat("flight-record-rank-", rank, ".txt"))
      .string();
}

}  // namespace tessera::engine
