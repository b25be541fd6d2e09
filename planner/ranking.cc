#include "planner/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::planner {
namespace {

// A mesh that is slower than the last row by more than this is not worth the search for it.
constexpr double kMeshMargin = 0.25;
constexpr double kAnyTime = std::numeric_limits<double>::infinity();

std::array<int, 6> MeshOf(const spec::ParallelSpec& parallel) {
  return {parallel.tensor_parallel_size, parallel.pipeline_parallel_size,
          parallel.data_parallel_size,   parallel.context_parallel_size,
          parallel.expert_parallel_size, parallel.expert_tensor_parallel_size};
}

// Times that are the same sum in another order: equal to ten digits.
double WithoutRounding(double time_s) {
  constexpr int kNumBits = 33;
  int exponent = 0;
  const double fraction = std::frexp(time_s, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, kNumBits)), exponent - kNumBits);
}

template <typename Entries>
std::vector<spec::ParallelSpec> LayoutsOf(Entries& entries) {
  std::vector<spec::ParallelSpec> layouts;
  for (auto& entry : entries) layouts.push_back(std::move(entry.parallel));
  return layouts;
}

}  // namespace

bool Ranking::IsFaster(const Entry& a, const Entry& b) {
  const double a_s = WithoutRounding(a.step_time_s);
  const double b_s = WithoutRounding(b.step_time_s);
  if (a_s != b_s) return a_s < b_s;
  return a.order < b.order;
}

double Ranking::LongestStep() const {
  if (request_.objective == Objective::kMemory) {
    return rows_.empty() ? kAnyTime : rows_.front().step_time_s * (1 + request_.slack_share);
  }
  if (static_cast<int>(rows_.size()) < num_rows_) return kAnyTime;
  const double last_row_s = rows_.back().step_time_s;
  const bool has_meshes = static_cast<int>(meshes_.size()) >= num_meshes_;
  const double last_mesh_s = has_meshes ? meshes_[num_meshes_ - 1].step_time_s : kAnyTime;
  return std::clamp(last_mesh_s, last_row_s, last_row_s * (1 + kMeshMargin));
}

void Ranking::Add(const Entry& entry) {
  AddToMeshes(entry);
  std::erase_if(rows_, [&](const Entry& row) { return row.order == entry.order; });
  rows_.insert(std::upper_bound(rows_.begin(), rows_.end(), entry, IsFaster), entry);
  if (request_.objective == Objective::kMemory) {
    const double longest_s = LongestStep();
    std::erase_if(rows_, [&](const Entry& row) { return row.step_time_s > longest_s; });
  } else if (static_cast<int>(rows_.size()) > num_rows_) {
    rows_.pop_back();
  }
}

void Ranking::AddToMeshes(const Entry& entry) {
  const auto mesh = MeshOf(entry.parallel);
  const auto known = std::find_if(meshes_.begin(), meshes_.end(), [&](const Entry& other) {
    return MeshOf(other.parallel) == mesh;
  });
  if (known != meshes_.end()) {
    if (!IsFaster(entry, *known)) return;
    meshes_.erase(known);
  }
  meshes_.insert(std::upper_bound(meshes_.begin(), meshes_.end(), entry, IsFaster), entry);
}

std::vector<spec::ParallelSpec> Ranking::TakeRows() {
  if (request_.objective == Objective::kMemory) {
    std::stable_sort(rows_.begin(), rows_.end(), [](const Entry& a, const Entry& b) {
      return a.needed_bytes < b.needed_bytes;
    });
    if (static_cast<int>(rows_.size()) > num_rows_) rows_.resize(num_rows_);
  }
  return LayoutsOf(rows_);
}

std::vector<spec::ParallelSpec> Ranking::TakeMeshes() {
  if (static_cast<int>(meshes_.size()) > num_meshes_) meshes_.resize(num_meshes_);
  return LayoutsOf(meshes_);
}

}  // namespace tessera::planner
