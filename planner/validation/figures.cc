#include "planner/validation/figures.h"

#include <algorithm>

#include "cost_model/base/check.h"

namespace tessera::planner {
namespace {

using base::Concat;

void AddErrors(const std::string& name, const ErrorScore& score, std::vector<Figure>& figures) {
  if (score.num_rows == 0) return;
  figures.push_back({name + ", mean error", score.mean_absolute});
  figures.push_back({name + ", median error", score.median_absolute});
  figures.push_back({name + ", worst error", score.worst_absolute});
}

void AddRows(const RowsScore& score, std::vector<Figure>& figures) {
  AddErrors(score.name + ": step time", score.step_time, figures);
  AddErrors(score.name + ": memory", score.memory, figures);
  figures.push_back({score.name + ": rows skipped", static_cast<double>(score.num_skipped)});
}

}  // namespace

std::vector<Figure> FiguresOf(const Validation& validation) {
  std::vector<Figure> figures;
  AddRows(validation.total, figures);
  for (const RowsScore& kind : validation.kinds) AddRows(kind, figures);
  for (const RowsScore& source : validation.sources) AddRows(source, figures);
  for (const auto& [name, score] : validation.memory_by_class) {
    AddErrors("memory " + name, score, figures);
  }
  const RankingScore& ranking = validation.ranking;
  if (!ranking.groups.empty()) {
    figures.push_back({"top pick: mean regret", ranking.mean_regret});
    figures.push_back({"top pick: worst regret", ranking.worst_regret});
  }
  if (ranking.num_large_groups > 0) {
    figures.push_back({"large groups: mean rank correlation", ranking.mean_rank_correlation});
    figures.push_back({"large groups: worst rank correlation", ranking.worst_rank_correlation});
  }
  figures.push_back(
      {"fits, but ran out of memory", static_cast<double>(validation.fit.false_fits.size())});
  figures.push_back(
      {"does not fit, but ran", static_cast<double>(validation.fit.false_refusals.size())});
  return figures;
}

std::vector<std::string> FindBrokenBounds(const std::vector<Figure>& figures,
                                          const std::vector<FigureBound>& bounds) {
  std::vector<std::string> broken;
  for (const FigureBound& bound : bounds) {
    const auto figure = std::find_if(figures.begin(), figures.end(), [&](const Figure& candidate) {
      return candidate.name == bound.figure;
    });
    if (figure == figures.end()) {
      broken.push_back(Concat("there is no figure \"", bound.figure, "\""));
    } else if (bound.at_most && figure->value > *bound.at_most) {
      broken.push_back(
          Concat(bound.figure, " is ", figure->value, ", above its bound ", *bound.at_most));
    } else if (bound.at_least && figure->value < *bound.at_least) {
      broken.push_back(
          Concat(bound.figure, " is ", figure->value, ", below its bound ", *bound.at_least));
    }
  }
  return broken;
}

}  // namespace tessera::planner
