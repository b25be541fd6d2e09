#include "planner/what_if/sweep.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "cost_model/base/error.h"
#include "planner/explanation.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

PointResult SearchPoint(const SweepPoint& point) {
  PointResult result;
  result.is_done = true;
  const cost_model::Job& job = point.request.job;
  const int max_devices = job.cluster.max_devices;
  if (max_devices > 0 && job.num_devices > max_devices) {
    result.reason = base::Concat("the cluster has ", FormatPlural(max_devices, "device"));
    return result;
  }
  try {
    cost_model::JobCosts costs(job);
    SearchResult search = SearchBest(point.request, costs);
    result.num_layouts = search.num_layouts;
    result.num_priced = search.num_priced;
    result.num_pruned = search.num_pruned;
    if (search.rows.empty()) {
      result.reason = WhyNothingFits(search);
    } else {
      result.best = std::move(search.rows.front());
    }
  } catch (const base::ConfigError& error) {  // no peak for the precision
    result.reason = error.what();
  }
  return result;
}

// Takes the points one at a time until none is left or the sweep is stopped.
class Sweeper {
 public:
  Sweeper(const std::vector<SweepPoint>& points, const SweepOptions& options)
      : points_(points), options_(options), results_(points.size()), order_(points.size()) {
    // The largest searches first, so that no worker is left alone with one at the end.
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return points_[a].request.job.num_devices > points_[b].request.job.num_devices;
    });
    for (size_t i = 0; i < results_.size(); ++i) results_[i].id = static_cast<int>(i);
  }

  std::vector<PointResult> Run() {
    const auto num_workers =
        std::min<size_t>(static_cast<size_t>(std::max(1, options_.num_workers)), points_.size());
    {
      std::vector<std::jthread> workers;
      for (size_t i = 1; i < num_workers; ++i) workers.emplace_back([this] { Work(); });
      Work();
    }
    if (failure_) std::rethrow_exception(failure_);
    return std::move(results_);
  }

 private:
  void Work() {
    while (!options_.stop.stop_requested() && !has_failed_) {
      const size_t next = next_++;
      if (next >= order_.size()) return;
      try {
        PointResult& result = results_[order_[next]];
        const int id = result.id;
        result = SearchPoint(points_[order_[next]]);
        result.id = id;
        const std::lock_guard lock(mutex_);
        ++num_done_;
        if (options_.progress) options_.progress({num_done_, points_.size()});
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        has_failed_ = true;
      }
    }
  }

  const std::vector<SweepPoint>& points_;
  const SweepOptions& options_;
  std::vector<PointResult> results_;
  std::vector<size_t> order_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;
  size_t num_done_ = 0;         // guarded by mutex_
  std::exception_ptr failure_;  // guarded by mutex_
};

}  // namespace

std::vector<PointResult> RunSweep(const std::vector<SweepPoint>& points,
                                  const SweepOptions& options) {
  return Sweeper(points, options).Run();
}

}  // namespace tessera::planner
