#include "planner/what_if/device_search.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"
#include "cost_model/spec/device_peak.h"
#include "planner/what_if/economics.h"

namespace tessera::planner {
namespace {

constexpr int kNumCoarseSteps = 16;

// The search for one base: asks for numbers of devices, a few at a time, and is told the answers.
class DeviceSearch {
 public:
  DeviceSearch(const SweepPoint& base, const RunTerms& terms) : base_(base), terms_(terms) {
    const spec::ClusterSpec& cluster = base.request.job.cluster;
    most_ = cluster.max_devices > 0 ? std::min(cluster.max_devices, kMostDevices) : kMostDevices;
    node_ = std::min(cluster.devices_per_node, most_);
    first_ = std::min(most_, FirstGuess());
  }

  const SweepPoint& base() const { return base_; }

  // What to search next; empty: done.
  std::vector<int> Wanted() {
    if (is_done_) return {};
    if (tried_.empty()) return {first_};
    if (const std::optional<int> next = NextDoubling()) return {*next};
    return NextBetween();
  }

  void Tell(int num_devices, double tokens_per_s, bool suffices) {
    tried_[num_devices] = suffices;
    if (!suffices && !is_bracketed_ && num_devices > first_) {
      // More devices than are of use.
      if (best_tokens_per_s_ > 0 && tokens_per_s <= best_tokens_per_s_) is_done_ = true;
    }
    best_tokens_per_s_ = std::max(best_tokens_per_s_, tokens_per_s);
  }

 private:
  // Within a factor of two of a lower bound: all devices at their peak, halved as causal attention
  // may be counted twice.
  int FirstGuess() const {
    const cost_model::Job& job = base_.request.job;
    const double tokens_per_step = static_cast<double>(job.training.global_batch_size) *
                                   static_cast<double>(job.training.sequence_length);
    const double flops = spec::ModelFlopsPerStep(job.model, job.training, job.convention) *
                         *terms_.tokens / tokens_per_step;
    const auto& peaks = job.cluster.device.peak_flops_per_s;
    const auto peak = peaks.find(spec::TypesOf(job.training.precision).matmul);
    if (peak == peaks.end()) return node_;
    const double nodes = flops / 2 / *terms_.within_s / peak->second / node_;
    if (nodes > static_cast<double>(kMostDevices)) return most_;
    return node_ * static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(1.0, nodes))));
  }

  // Up by two from what does not suffice, down by two from what does; sets the bracket once both
  // are known.
  std::optional<int> NextDoubling() {
    if (is_bracketed_) return std::nullopt;
    const bool first_suffices = tried_[first_];
    int at = first_;
    while (tried_.contains(at) && tried_[at] == first_suffices) {
      if (first_suffices) {
        if (at % 2 != 0) break;
        at /= 2;
      } else {
        if (at > most_ / 2) break;
        at *= 2;
      }
    }
    if (!tried_.contains(at)) return at;
    if (tried_[at] == first_suffices) {  // nothing left to halve, or nothing to double
      is_done_ = true;
      return std::nullopt;
    }
    low_ = first_suffices ? at : at / 2;
    high_ = first_suffices ? at * 2 : at;
    is_bracketed_ = true;
    return std::nullopt;
  }

  // Coarse steps from below, then halves of the step below the first that suffices.
  std::vector<int> NextBetween() {
    if (!is_bracketed_) return {};
    const int nodes = (high_ - low_) / node_;
    if (nodes <= 1 || high_ <= node_) return Done();
    if (step_ == 0) {
      const auto least = static_cast<unsigned>(base::CeilDiv(nodes, kNumCoarseSteps));
      step_ = static_cast<int>(std::bit_ceil(least)) * node_;
    }
    if (!is_coarse_done_) {
      for (int at = low_ + step_; at < high_; at += step_) {
        const auto known = tried_.find(at);
        if (known == tried_.end()) return {at};
        if (known->second) {
          high_ = at;
          low_ = at - step_;
          break;
        }
      }
      is_coarse_done_ = true;
      // None suffices: the last step below the bracket's end is what is left.
      if (high_ - low_ > step_) low_ = high_ - step_;
    }
    while (high_ - low_ > node_) {
      const int middle = low_ + (high_ - low_) / node_ / 2 * node_;
      const auto known = tried_.find(middle);
      if (known == tried_.end()) return {middle};
      (known->second ? high_ : low_) = middle;
    }
    return Done();
  }

  std::vector<int> Done() {
    is_done_ = true;
    return {};
  }

  const SweepPoint& base_;
  const RunTerms& terms_;
  int most_ = 0;
  int node_ = 1;
  int first_ = 1;
  std::map<int, bool> tried_;
  double best_tokens_per_s_ = 0;  // under failures
  bool is_bracketed_ = false;
  bool is_coarse_done_ = false;
  bool is_done_ = false;
  int low_ = 0;   // does not suffice
  int high_ = 0;  // suffices
  int step_ = 0;
};

void Tell(const cost_model::Job& job, const PointResult& found, const RunTerms& terms,
          DeviceSearch& search) {
  if (!found.best) {
    search.Tell(job.num_devices, 0, false);
    return;
  }
  const RunFigures run = EstimateRun(job, found.best->report, terms);
  search.Tell(job.num_devices, run.effective_tokens_per_s, run.wall_s <= *terms.within_s);
}

}  // namespace

std::vector<SearchedPoint> SearchDevices(const std::vector<SweepPoint>& bases,
                                         const RunTerms& terms, const SweepOptions& options) {
  TESSERA_CHECK(terms.tokens && terms.within_s, "no deadline to search devices for");
  std::deque<DeviceSearch> searches;
  for (const SweepPoint& base : bases) searches.emplace_back(base, terms);
  std::vector<SearchedPoint> searched;
  // What is found decides what is searched next: how many points there will be is not known.
  SweepOptions round = options;
  if (options.progress) {
    round.progress = [&](const SweepProgress& progress) {
      options.progress({searched.size() + progress.num_done, 0});
    };
  }
  while (!options.stop.stop_requested()) {
    std::vector<SweepPoint> points;
    std::vector<DeviceSearch*> askers;
    for (DeviceSearch& search : searches) {
      for (const int num_devices : search.Wanted()) {
        points.push_back(search.base());
        points.back().request.job.num_devices = num_devices;
        askers.push_back(&search);
      }
    }
    if (points.empty()) break;
    std::vector<PointResult> found = RunSweep(points, round);
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].is_done) continue;
      Tell(points[i].request.job, found[i], terms, *askers[i]);
      searched.push_back({std::move(points[i]), std::move(found[i])});
    }
  }
  return searched;
}

}  // namespace tessera::planner
