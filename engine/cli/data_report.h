// What `tessera data` prints: progress on stderr, results on stdout.
#pragma once

#include <chrono>

#include "engine/data/dataset_builder.h"
#include "engine/data/dataset_summary.h"

namespace tessera::engine {

// One line on a terminal, rewritten as the build goes on; elsewhere a line every few seconds.
class BuildProgressPrinter {
 public:
  explicit BuildProgressPrinter(bool quiet);
  void Update(const BuildProgress& progress);
  // The last line: what was read, how fast.
  void Finish();

 private:
  void Print(const char* line_end) const;

  using Clock = std::chrono::steady_clock;
  bool quiet_;
  bool is_terminal_;
  BuildProgress progress_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_print_ = start_;
};

void PrintBuildResult(const BuildResult& result, bool as_json);
void PrintSummary(const DatasetSummary& summary, bool as_json);

}  // namespace tessera::engine
