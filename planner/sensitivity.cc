#include "planner/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "cost_model/base/check.h"
#include "planner/layout_text.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

// The layouts that a changed machine may favour: the first rows and the best of other meshes.
constexpr size_t kNumRows = 8;

struct Candidate {
  spec::ParallelSpec layout;
  double needed_bytes = 0;
};

std::vector<Candidate> Candidates(const Request& request, const SearchResult& search) {
  std::vector<Candidate> candidates;
  const auto add = [&](const RankedLayout& row) {
    for (const Candidate& known : candidates) {
      if (known.layout == row.parallel) return;
    }
    candidates.push_back({row.parallel, NeededBytesOf(request, row)});
  };
  for (size_t i = 0; i < search.rows.size() && i < kNumRows; ++i) add(search.rows[i]);
  for (const RankedLayout& mesh : search.meshes) add(mesh);
  return candidates;
}

// A number of the cluster and how to scale it.
struct Knob {
  const char* quantity;
  const char* unit;
  bool falls;
  std::function<double(const spec::ClusterSpec&)> value;
  std::function<void(spec::ClusterSpec&, double)> scale;
};

Knob PeakKnob(base::DType type, bool falls) {
  return {"peak of a device", "FLOP/s", falls,
          [type](const spec::ClusterSpec& cluster) {
            const auto peak = cluster.device.peak_flops_per_s.find(type);
            return peak == cluster.device.peak_flops_per_s.end() ? 0 : peak->second;
          },
          [](spec::ClusterSpec& cluster, double factor) {
            for (auto& [dtype, peak] : cluster.device.peak_flops_per_s) peak *= factor;
          }};
}

std::vector<Knob> KnobsOf(const cost_model::Job& job) {
  using spec::ClusterSpec;
  std::vector<Knob> knobs;
  const bool is_pool = job.cluster.shared_compute_units > 0;
  if (!is_pool && job.num_devices > job.cluster.devices_per_node) {
    knobs.push_back({"bandwidth between nodes", "B/s", true,
                     [](const ClusterSpec& c) { return c.inter_node.bandwidth_bytes_per_s; },
                     [](ClusterSpec& c, double f) { c.inter_node.bandwidth_bytes_per_s *= f; }});
    knobs.push_back({"latency between nodes", "s", false,
                     [](const ClusterSpec& c) { return c.inter_node.latency_s; },
                     [](ClusterSpec& c, double f) { c.inter_node.latency_s *= f; }});
  }
  if (!is_pool && std::min(job.num_devices, job.cluster.devices_per_node) > 1) {
    knobs.push_back({"bandwidth inside a node", "B/s", true,
                     [](const ClusterSpec& c) { return c.intra_node.bandwidth_bytes_per_s; },
                     [](ClusterSpec& c, double f) { c.intra_node.bandwidth_bytes_per_s *= f; }});
  }
  knobs.push_back({is_pool ? "memory of the machine" : "memory of a device", "B", true,
                   [](const ClusterSpec& c) { return static_cast<double>(c.device.memory_bytes); },
                   [](ClusterSpec& c, double f) {
                     c.device.memory_bytes =
                         static_cast<int64_t>(f * static_cast<double>(c.device.memory_bytes));
                   }});
  const base::DType type = spec::TypesOf(job.training.precision).matmul;
  knobs.push_back(PeakKnob(type, true));
  knobs.push_back(PeakKnob(type, false));
  return knobs;
}

class Bisection {
 public:
  Bisection(const Request& request, std::vector<Candidate> candidates)
      : request_(request), candidates_(std::move(candidates)) {}

  Sensitivity Find(const Knob& knob) const {
    const double value = knob.value(request_.job.cluster);
    Sensitivity found{.quantity = knob.quantity,
                      .unit = knob.unit,
                      .value = value,
                      .falls = knob.falls,
                      .threshold = std::nullopt,
                      .successor = std::nullopt};
    const auto best_at = [&](double exponent) {
      return Best(knob, std::pow(2.0, knob.falls ? -exponent : exponent));
    };
    double good = 0;
    double bad = std::log2(kWidestFactor);
    if (value <= 0 || best_at(good) != 0 || best_at(bad) == 0) return found;
    constexpr double kPrecision = 0.01;
    while (bad - good > kPrecision) {
      const double middle = (good + bad) / 2;
      (best_at(middle) == 0 ? good : bad) = middle;
    }
    found.threshold = value * std::pow(2.0, knob.falls ? -good : good);
    const int successor = best_at(bad);
    if (successor > 0) found.successor = candidates_[successor].layout;
    return found;
  }

 private:
  // The fastest candidate that fits on a cluster scaled by `factor`; -1: none. The first, which is
  // the choice, wins ties.
  int Best(const Knob& knob, double factor) const {
    constexpr double kRounding = 1e-9;
    cost_model::Job job = request_.job;
    knob.scale(job.cluster, factor);
    const auto available_bytes = static_cast<double>(job.cluster.device.memory_bytes);
    cost_model::JobCosts costs(std::move(job));
    int best = -1;
    double best_s = 0;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].needed_bytes > available_bytes) continue;
      const cost_model::FastPrice price = cost_model::PriceStepFast(costs, candidates_[i].layout);
      if (best >= 0 && price.step_time_s >= best_s * (1 - kRounding)) continue;
      best = static_cast<int>(i);
      best_s = price.step_time_s;
    }
    return best;
  }

  const Request& request_;
  std::vector<Candidate> candidates_;  // the choice first
};

std::string ValueText(double value, const std::string& unit) {
  if (unit == "s") return FormatSeconds(value);
  if (unit == "B") return FormatBytes(value);
  return FormatSi(value) + unit;
}

}  // namespace

std::vector<Sensitivity> FindSensitivities(const Request& request, const SearchResult& search) {
  TESSERA_CHECK(!search.rows.empty(), "no choice to be sensitive");
  std::vector<Sensitivity> found;
  if (request.objective == Objective::kMemory) return found;
  const Bisection bisection(request, Candidates(request, search));
  for (const Knob& knob : KnobsOf(request.job)) found.push_back(bisection.Find(knob));
  return found;
}

std::vector<std::string> SensitivityTexts(const std::vector<Sensitivity>& sensitivities) {
  std::vector<std::string> texts;
  std::string steady;
  for (const Sensitivity& found : sensitivities) {
    const std::string quantity = Concat("the ", found.quantity);
    if (!found.threshold) {
      steady += Concat(steady.empty() ? "" : ", ", quantity, found.falls ? " falling" : " rising");
      continue;
    }
    texts.push_back(Concat(
        "Stays best until ", quantity, found.falls ? " falls below " : " rises above ",
        ValueText(*found.threshold, found.unit), " (",
        FormatFixed(*found.threshold / found.value, 2), " x what the cluster file says); then ",
        found.successor ? LayoutText(*found.successor) + " takes over."
                        : std::string("none of the closest layouts fits.")));
  }
  if (!steady.empty()) {
    texts.push_back(Concat("Stays best whatever happens, up to ", FormatFixed(kWidestFactor, 0),
                           " times, to: ", steady, "."));
  }
  return texts;
}

}  // namespace tessera::planner
