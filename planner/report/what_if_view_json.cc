#include "planner/report/what_if_view_json.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

int IndexOf(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

void AddOnce(std::vector<std::string>& names, const std::string& name) {
  if (IndexOf(names, name) < 0) names.push_back(name);
}

std::string CountAt(const Json& json, const std::string& path) {
  const auto count = NumberAt(json, path);
  return count ? FormatCount(std::llround(*count)) : "?";
}

size_t NumDistinct(const std::vector<const Json*>& points, const std::string& path) {
  std::set<std::string> values;
  for (const Json* point : points) {
    if (const Json* value = Find(*point, path)) values.insert(value->dump());
  }
  return values.size();
}

}  // namespace

const Json* Find(const Json& json, const std::string& path) {
  const Json* found = &json;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (!found->is_object()) return nullptr;
    const auto entry = found->find(path.substr(begin, end - begin));
    if (entry == found->end() || entry->is_null()) return nullptr;
    found = &*entry;
    begin = end + 1;
  }
  return found;
}

std::optional<double> NumberAt(const Json& json, const std::string& path) {
  const Json* found = Find(json, path);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string TextAt(const Json& json, const std::string& path) {
  const Json* found = Find(json, path);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

bool IsTrueAt(const Json& json, const std::string& path) {
  const Json* found = Find(json, path);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

std::vector<const Json*> ListAt(const Json& json, const std::string& path) {
  std::vector<const Json*> list;
  const Json* found = Find(json, path);
  if (found == nullptr || !found->is_array()) return list;
  for (const Json& element : *found) list.push_back(&element);
  return list;
}

Cell NumberCell(const Json& json, const std::string& path, const Scale& scale) {
  const auto number = NumberAt(json, path);
  if (!number) return MissingCell();
  return {.text = FormatScaled(*number, scale), .value = Find(json, path)->dump()};
}

int64_t IdOf(const Json& point) { return std::llround(NumberAt(point, "id").value_or(-1)); }

WhatIfView::WhatIfView(const Json& document)
    : document_(document), points_(ListAt(document, "points")) {
  for (const Json* point : points_) by_id_.emplace(IdOf(*point), point);
  FindKeys();
  FindAnswer();
}

void WhatIfView::FindKeys() {
  has_models_ = NumDistinct(points_, "model") > 1;
  const bool has_devices = NumDistinct(points_, "devices") > 1;
  const bool has_batches = NumDistinct(points_, "global_batch_size") > 1;
  has_sequences_ = NumDistinct(points_, "sequence_length") > 1;
  if (!has_devices && has_batches) {
    sweep_key_ = "global_batch_size";
  } else if (!has_devices && has_sequences_) {
    sweep_key_ = "sequence_length";
  }
  for (const Json* point : points_) {
    AddOnce(keys_.groups, GroupName(*point));
    AddOnce(keys_.styles, StyleName(*point));
  }
}

void WhatIfView::FindAnswer() {
  if (const auto id = NumberAt(document_, "answer/point")) {
    answer_ = std::llround(*id);
    if (PointOf(answer_) != nullptr) return;
    answer_ = -1;
  }
  double best = 0;
  for (const Json* point : FeasiblePoints()) {
    const double rate = NumberAt(*point, "tokens_per_s").value_or(0);
    if (rate <= best) continue;
    best = rate;
    answer_ = IdOf(*point);
  }
}

std::string WhatIfView::answer_name() const {
  return NumberAt(document_, "answer/point") ? "the answer" : "the highest throughput";
}

const Json* WhatIfView::PointOf(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<const Json*> WhatIfView::FeasiblePoints() const {
  std::vector<const Json*> feasible;
  for (const Json* point : points_) {
    if (IsTrueAt(*point, "feasible")) feasible.push_back(point);
  }
  return feasible;
}

std::string WhatIfView::GroupName(const Json& point) const {
  std::string name = TextAt(point, "cluster");
  const std::string variant = TextAt(point, "variant");
  if (!variant.empty()) name += ", " + variant;
  if (has_models_) name = TextAt(point, "model") + " on " + name;
  return name;
}

std::string WhatIfView::StyleName(const Json& point) const {
  std::string name;
  if (sweep_key_ != "global_batch_size") name = "batch " + CountAt(point, "global_batch_size");
  if (has_sequences_ && sweep_key_ != "sequence_length") {
    name += Concat(name.empty() ? "" : ", ", "sequences of ", CountAt(point, "sequence_length"));
  }
  return name;
}

int WhatIfView::GroupOf(const Json& point) const { return IndexOf(keys_.groups, GroupName(point)); }
int WhatIfView::StyleOf(const Json& point) const { return IndexOf(keys_.styles, StyleName(point)); }

std::string WhatIfView::TitleOf(const Json& point) const {
  std::string title = Concat(CountAt(point, "devices"), " × ", GroupName(point), ", batch ",
                             CountAt(point, "global_batch_size"));
  if (has_sequences_) title += " × " + CountAt(point, "sequence_length");
  return title;
}

std::vector<const Json*> WhatIfView::BestPoints(size_t num_points) const {
  std::vector<int64_t> ids = {answer_};
  for (const char* path : {"answer/alternatives", "frontier"}) {
    for (const Json* id : ListAt(document_, path)) ids.push_back(id->get<int64_t>());
  }
  for (const Json* detail : ListAt(document_, "details")) {
    ids.push_back(std::llround(NumberAt(*detail, "point").value_or(-1)));
  }
  std::vector<const Json*> best;
  for (const int64_t id : ids) {
    const Json* point = PointOf(id);
    if (point == nullptr || !IsTrueAt(*point, "feasible") || best.size() == num_points) continue;
    if (std::find(best.begin(), best.end(), point) == best.end()) best.push_back(point);
  }
  std::stable_sort(best.begin(), best.end(), [](const Json* a, const Json* b) {
    return NumberAt(*a, "devices").value_or(0) < NumberAt(*b, "devices").value_or(0);
  });
  return best;
}

std::string WhatIfView::cost_key() const {
  return LargestAt("run/cost_usd") > 0 ? "run/cost_usd" : "run/device_hours";
}

double WhatIfView::LargestAt(const std::string& path) const {
  double largest = 0;
  for (const Json* point : points_) {
    largest = std::max(largest, std::abs(NumberAt(*point, path).value_or(0)));
  }
  return largest;
}

}  // namespace tessera::planner
