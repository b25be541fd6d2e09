#include "planner/cli/sweep_progress.h"

#include <unistd.h>

#include <iostream>

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

constexpr double kTerminalPause_s = 0.2;
constexpr double kFilePause_s = 5;

double SecondsSince(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

}  // namespace

SweepProgressLine::SweepProgressLine()
    : start_(Clock::now()), last_shown_(start_), is_terminal_(isatty(STDERR_FILENO) != 0) {}

void SweepProgressLine::Show(const SweepProgress& progress) {
  if (SecondsSince(last_shown_) < (is_terminal_ ? kTerminalPause_s : kFilePause_s)) return;
  last_shown_ = Clock::now();
  const double rate = static_cast<double>(progress.num_done) / SecondsSince(start_);
  std::string line = base::Concat(progress.num_done);
  if (progress.num_points > 0) line += base::Concat(" of ", progress.num_points);
  line += base::Concat(" points, ", FormatFixed(rate, 1), " a second");
  if (progress.num_points > 0) {
    const double left_s = static_cast<double>(progress.num_points - progress.num_done) / rate;
    line += base::Concat(", ", FormatFixed(left_s, 0), " s left");
  }
  if (is_terminal_) {
    std::cerr << "\r\033[K" << line << std::flush;
    has_line_ = true;
  } else {
    std::cerr << line << "\n";
  }
}

void SweepProgressLine::End() {
  if (has_line_) std::cerr << "\r\033[K" << std::flush;
  has_line_ = false;
}

}  // namespace tessera::planner
