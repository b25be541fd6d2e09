// How far a sweep is, on stderr.
#pragma once

#include <chrono>

#include "planner/what_if/sweep.h"

namespace tessera::planner {

// "37 of 144 points, 21.3 a second, 5 s left", or "37 points, 21.3 a second" where their number is
// not known beforehand: on a terminal one line that is written over, a few
// times a second; elsewhere a line every few seconds. Nothing for sweeps shorter than that.
class SweepProgressLine {
 public:
  SweepProgressLine();
  void Show(const SweepProgress& progress);
  // Clears the line on a terminal.
  void End();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  Clock::time_point last_shown_;
  bool is_terminal_ = false;
  bool has_line_ = false;
};

}  // namespace tessera::planner
