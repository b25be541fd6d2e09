#include "planner/what_if/questions.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/base/check.h"
#include "planner/text_format.h"
#include "planner/what_if/economics.h"
#include "planner/what_if/run_text.h"

namespace tessera::planner {
namespace {

using base::Concat;
using Points = std::vector<const WhatIfPoint*>;

bool IsInTime(const WhatIfPoint& point, const RunTerms& terms) {
  return !terms.within_s || point.run->wall_s <= *terms.within_s;
}
bool IsInBudget(const WhatIfPoint& point, const RunTerms& terms) {
  return !terms.budget_usd || (point.run->cost_usd && *point.run->cost_usd <= *terms.budget_usd);
}

// The first of those with the least value.
template <typename Value>
const WhatIfPoint* Least(const Points& points, Value value) {
  const WhatIfPoint* least = nullptr;
  for (const WhatIfPoint* point : points) {
    if (least == nullptr || value(*point) < value(*least)) least = point;
  }
  return least;
}
const WhatIfPoint* Fastest(const Points& points) {
  return Least(points, [](const WhatIfPoint& point) { return point.run->wall_s; });
}
// Of as many devices the faster.
const WhatIfPoint* Smallest(const Points& points) {
  return Least(points, [](const WhatIfPoint& point) {
    return std::pair<int, double>(point.job().num_devices, point.run->wall_s);
  });
}
// Null where a price is missing.
const WhatIfPoint* Cheapest(const Points& points) {
  for (const WhatIfPoint* point : points) {
    if (!point->run->cost_usd) return nullptr;
  }
  return Least(points, [](const WhatIfPoint& point) {
    return std::pair<double, double>(*point.run->cost_usd, point.run->wall_s);
  });
}

std::string QuestionText(const std::string& model, int64_t sequence_length, const RunTerms& terms) {
  std::string text = Concat("Train ", model, " on ", LargeCountText(*terms.tokens),
                            " tokens in samples of ", FormatCount(sequence_length));
  if (terms.within_s) text += Concat(" within ", DaysText(*terms.within_s / kSecondsPerDay));
  if (terms.budget_usd) {
    text += Concat(terms.within_s ? " and" : "", " for at most ", DollarsText(*terms.budget_usd));
  }
  return text + ": on what?";
}

// The best of each other cluster (and variant), as alternatives.
std::vector<int> Alternatives(const Points& points, const WhatIfPoint& chosen,
                              const WhatIfPoint* (*best)(const Points&)) {
  std::map<std::pair<std::string, std::string>, Points> by_cluster;
  for (const WhatIfPoint* point : points) {
    by_cluster[{point->job().cluster.name, point->asked.variant}].push_back(point);
  }
  std::vector<int> alternatives;
  for (const auto& [key, list] : by_cluster) {
    const WhatIfPoint* point = best(list);
    if (point == nullptr) point = Smallest(list);
    if (point->found.id != chosen.found.id) alternatives.push_back(point->found.id);
  }
  return alternatives;
}

void AnswerYes(const Points& suited, const RunTerms& terms, Answer& answer) {
  const WhatIfPoint* smallest = Smallest(suited);
  const WhatIfPoint* cheapest = Cheapest(suited);
  const bool has_deadline = terms.within_s.has_value();
  const WhatIfPoint* chosen =
      has_deadline ? (cheapest != nullptr ? cheapest : smallest) : Fastest(suited);
  answer.is_feasible = true;
  answer.point = chosen->found.id;
  answer.fewest_devices = smallest->found.id;
  if (cheapest != nullptr) answer.cheapest = cheapest->found.id;
  answer.alternatives = Alternatives(
      suited, *chosen, has_deadline ? (cheapest != nullptr ? Cheapest : Smallest) : Fastest);
  const char* kind = !has_deadline         ? "The fastest that the budget pays for: "
                     : cheapest != nullptr ? "The cheapest: "
                                           : "The fewest devices: ";
  answer.text = Concat(kind, PlaceText(*chosen), ": ", RunText(*chosen), ".");
  if (has_deadline && smallest != chosen) {
    answer.text +=
        Concat(" The fewest devices: ", PlaceText(*smallest), ": ", RunText(*smallest), ".");
  }
  if (has_deadline && cheapest == nullptr) {
    answer.text += " No price is known for a cluster (--price), so costs are not compared.";
  }
}

void AnswerNo(const Points& priced, bool has_layout, const RunTerms& terms, Answer& answer) {
  answer.text = "Nothing asked about suffices: ";
  if (priced.empty()) {
    answer.text += has_layout ? "failures leave no time to train in." : "no layout fits at all.";
    if (has_layout) answer.unlock.push_back("devices that fail less often, or shorter restarts");
    return;
  }
  const WhatIfPoint* fastest = Fastest(priced);
  const WhatIfPoint* cheapest = Cheapest(priced);
  const bool is_late = terms.within_s && fastest->run->wall_s > *terms.within_s;
  const bool is_dear =
      terms.budget_usd && cheapest != nullptr && *cheapest->run->cost_usd > *terms.budget_usd;
  const WhatIfPoint* nearest = is_late || cheapest == nullptr ? fastest : cheapest;
  answer.point = nearest->found.id;
  std::vector<std::string> reasons;
  if (is_late) {
    reasons.push_back(
        Concat("the fastest, ", PlaceText(*fastest), ", takes ", DaysText(fastest->run->Days())));
    answer.unlock.push_back(Concat("more time: ", DaysText(fastest->run->Days())));
    answer.unlock.push_back(Concat(
        "fewer tokens: ", LargeCountText(*terms.tokens * *terms.within_s / fastest->run->wall_s)));
  }
  if (is_dear) {
    const double share = *terms.budget_usd / *cheapest->run->cost_usd;
    reasons.push_back(Concat("the cheapest, ", PlaceText(*cheapest), ", costs ",
                             DollarsText(*cheapest->run->cost_usd)));
    answer.unlock.push_back(Concat("a budget of ", DollarsText(*cheapest->run->cost_usd), " for ",
                                   PlaceText(*cheapest), " (", DaysText(cheapest->run->Days()),
                                   ")"));
    answer.unlock.push_back(Concat("fewer tokens: ", LargeCountText(*terms.tokens * share)));
    const double price = *cheapest->run->cost_usd / cheapest->run->device_hours;
    answer.unlock.push_back(Concat("a price of at most $", FormatFixed(price * share, 2),
                                   " for an hour of a ", cheapest->job().cluster.device.name,
                                   " instead of $", FormatFixed(price, 2)));
  }
  if (reasons.empty()) {  // each of the two wishes can be had, but not both
    Points in_time;
    for (const WhatIfPoint* point : priced) {
      if (IsInTime(*point, terms)) in_time.push_back(point);
    }
    const WhatIfPoint* dearer = Cheapest(in_time);
    reasons.push_back("none keeps both the time and the budget");
    if (dearer != nullptr) {
      reasons.push_back(Concat("the cheapest in time, ", PlaceText(*dearer), ", costs ",
                               DollarsText(*dearer->run->cost_usd)));
      answer.unlock.push_back(Concat("a budget of ", DollarsText(*dearer->run->cost_usd)));
    }
    answer.unlock.push_back(Concat("more time: ", DaysText(cheapest->run->Days()), " on ",
                                   PlaceText(*cheapest), " for ",
                                   DollarsText(*cheapest->run->cost_usd)));
  }
  for (size_t i = 0; i < reasons.size(); ++i) answer.text += (i > 0 ? "; " : "") + reasons[i];
  answer.text += ".";
}

}  // namespace

std::vector<Answer> AnswerQuestions(const std::vector<WhatIfPoint>& points, const RunTerms& terms) {
  std::vector<Answer> answers;
  if (!terms.within_s && !terms.budget_usd) return answers;
  TESSERA_CHECK(terms.tokens, "a question without tokens");
  std::vector<Points> priced;  // by answer
  std::vector<bool> has_layout;
  for (const WhatIfPoint& point : points) {
    const cost_model::Job& job = point.job();
    const auto is_same = [&](const Answer& answer) {
      return answer.model == job.model.name &&
             answer.sequence_length == job.training.sequence_length;
    };
    auto at = std::find_if(answers.begin(), answers.end(), is_same);
    if (at == answers.end()) {
      Answer answer;
      answer.model = job.model.name;
      answer.sequence_length = job.training.sequence_length;
      answer.question = QuestionText(job.model.name, answer.sequence_length, terms);
      at = answers.insert(answers.end(), std::move(answer));
      priced.emplace_back();
      has_layout.push_back(false);
    }
    const auto index = static_cast<size_t>(at - answers.begin());
    if (point.run) has_layout[index] = true;
    if (point.run && std::isfinite(point.run->wall_s)) priced[index].push_back(&point);
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    Points suited;
    for (const WhatIfPoint* point : priced[i]) {
      if (IsInTime(*point, terms) && IsInBudget(*point, terms)) suited.push_back(point);
    }
    if (suited.empty()) {
      AnswerNo(priced[i], has_layout[i], terms, answers[i]);
    } else {
      AnswerYes(suited, terms, answers[i]);
    }
  }
  return answers;
}

}  // namespace tessera::planner
