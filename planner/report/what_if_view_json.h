// Reading the document of `tessera what-if`. A key that is absent or null is unknown.
#pragma once

#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/report/chart.h"

namespace tessera::planner {

using Json = nlohmann::ordered_json;

// What lies at "run/days" below `json`; nullptr: nothing, or null.
const Json* Find(const Json& json, const std::string& path);
std::optional<double> NumberAt(const Json& json, const std::string& path);
std::string TextAt(const Json& json, const std::string& path);  // empty if there is none
bool IsTrueAt(const Json& json, const std::string& path);
// The elements of the list there; empty if there is none.
std::vector<const Json*> ListAt(const Json& json, const std::string& path);

// The number there as a cell in the unit of `scale`.
Cell NumberCell(const Json& json, const std::string& path, const Scale& scale);

// The points of a sweep, and what tells them apart.
class WhatIfView {
 public:
  // Keeps a reference: `document` must live on.
  explicit WhatIfView(const Json& document);

  const Json& document() const { return document_; }
  const std::vector<const Json*>& points() const { return points_; }
  const Json* PointOf(int64_t id) const;  // nullptr: no such point
  // Feasible ones, in order.
  std::vector<const Json*> FeasiblePoints() const;

  // Clusters (with their variants, and models where there are several) are groups, batch sizes
  // (and sequence lengths where there are several) styles.
  const SeriesKeys& keys() const { return keys_; }
  int GroupOf(const Json& point) const;
  int StyleOf(const Json& point) const;

  // "1,024 x dgx-h100, batch 2,048".
  std::string TitleOf(const Json& point) const;
  // The key that differs from point to point along a line: devices, or where these are all alike
  // global_batch_size or sequence_length.
  const std::string& sweep_key() const { return sweep_key_; }

  // The answer's point, or that of the highest throughput; -1: nothing is feasible.
  int64_t answer() const { return answer_; }
  // What to call it: "the answer", "the highest throughput".
  std::string answer_name() const;
  // The answer, what else it names, the frontier and the points with details: at most
  // `num_points`, by devices.
  std::vector<const Json*> BestPoints(size_t num_points) const;

  // "run/cost_usd", or "run/device_hours" where no price is known.
  std::string cost_key() const;
  // The largest size of the number there among all points.
  double LargestAt(const std::string& path) const;

 private:
  std::string GroupName(const Json& point) const;
  std::string StyleName(const Json& point) const;
  void FindKeys();
  void FindAnswer();

  const Json& document_;
  std::vector<const Json*> points_;
  std::map<int64_t, const Json*> by_id_;
  SeriesKeys keys_;
  std::string sweep_key_ = "devices";
  bool has_models_ = false;     // several
  bool has_sequences_ = false;  // several
  int64_t answer_ = -1;
};

int64_t IdOf(const Json& point);

}  // namespace tessera::planner
