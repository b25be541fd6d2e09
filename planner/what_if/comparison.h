// Two steps held against each other, term by term: plans, clusters, a measurement.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/step_report.h"

namespace tessera::planner {

struct ComparedSide {
  std::string name;         // a file or a cluster
  std::string kind;         // "plan", "cluster", "estimate", "measurement"
  std::string layout_text;  // empty: unknown
  spec::StepReport report;  // its time terms sum to its step time
};

struct ComparedTerm {
  std::string term;  // the key of a step report: "forward_s"
  std::string name;  // in words
  double a_s = 0;
  double b_s = 0;
  double DifferenceS() const { return b_s - a_s; }
};

struct Comparison {
  ComparedSide a, b;
  std::vector<ComparedTerm> terms;  // their differences sum to the difference of the steps
  std::string sentence;
};

Comparison Compare(ComparedSide a, ComparedSide b);

// What is compared, and a table of the terms.
std::string ComparisonText(const Comparison& comparison);

}  // namespace tessera::planner
