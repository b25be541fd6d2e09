// The figures that a validation is judged by, and the bounds recorded for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/validation/validation.h"

namespace tessera::planner {

struct Figure {
  std::string name;  // "all rows: step time, mean error"
  double value = 0;
};

// Errors of all rows, of every kind, source and memory class; regret and rank correlation; wrong
// answers to "does it fit?". Figures of no rows are left out.
std::vector<Figure> FiguresOf(const Validation& validation);

// One of the two is set.
struct FigureBound {
  std::string figure;
  std::optional<double> at_most;
  std::optional<double> at_least;
};

// Throws base::ConfigError.
std::vector<FigureBound> ReadFigureBounds(const std::string& path);

// One sentence for each bound that is broken, or whose figure does not exist.
std::vector<std::string> FindBrokenBounds(const std::vector<Figure>& figures,
                                          const std::vector<FigureBound>& bounds);

}  // namespace tessera::planner
