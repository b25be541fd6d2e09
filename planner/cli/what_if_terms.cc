// From flags to what is assumed of a run: declared in what_if_options.h.
#include <algorithm>
#include <limits>

#include "cost_model/base/error.h"
#include "planner/cli/what_if_options.h"
#include "planner/what_if/quantity_text.h"

namespace tessera::planner {
namespace {

SourcedNumber FromFlag(double value, const char* flag) { return {value, {"assumed", flag}}; }

// "2.5" for all clusters, "dgx-h100=2.5" for one.
void SetPrice(const std::string& text, const std::vector<std::string>& clusters, RunTerms& terms) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    const double price = ParseDollars(text, "--price");
    for (const std::string& cluster : clusters) terms.price_per_device_hour[cluster] = price;
    return;
  }
  const std::string name = text.substr(0, equals);
  if (std::find(clusters.begin(), clusters.end(), name) == clusters.end()) {
    std::string known;
    for (const std::string& cluster : clusters) known += (known.empty() ? "" : ", ") + cluster;
    throw base::ConfigError("--price", "", name, base::Concat("one of ", known));
  }
  terms.price_per_device_hour[name] = ParseDollars(text.substr(equals + 1), "--price");
}

double FactorFromFlag(double value, const char* flag) {
  if (value >= 1 && value < std::numeric_limits<double>::infinity()) return value;
  throw base::ConfigError(flag, "", base::Concat(value), "a number of at least 1");
}

void SetQuestion(const WhatIfOptions& options, RunTerms& terms) {
  if (!options.tokens.empty()) terms.tokens = ParseCount(options.tokens, "--tokens");
  if (!options.within.empty()) terms.within_s = ParseDuration(options.within, "--within");
  if (!options.budget.empty()) {
    terms.budget_usd = ParseDollars(options.budget, "--budget");
    if (*terms.budget_usd <= 0) {
      throw base::ConfigError("--budget", "", options.budget, "more than nothing");
    }
  }
  if (!terms.tokens && (terms.within_s || terms.budget_usd)) {
    throw base::ConfigError(terms.within_s ? "--within" : "--budget", "", "no --tokens",
                            "how much to train on, such as --tokens 15T");
  }
}

}  // namespace

RunTerms MakeRunTerms(const WhatIfOptions& options, const std::vector<std::string>& clusters) {
  RunTerms terms = LoadRunTerms();
  SetQuestion(options, terms);
  // Prices for all first, whatever the order: those of one cluster stand above them.
  for (const bool is_for_one : {false, true}) {
    for (const std::string& price : options.prices) {
      if ((price.find('=') != std::string::npos) == is_for_one) SetPrice(price, clusters, terms);
    }
  }
  if (options.mtbf == "none") {
    terms.mtbf_device_s = FromFlag(std::numeric_limits<double>::infinity(), "--mtbf");
  } else if (!options.mtbf.empty()) {
    terms.mtbf_device_s = FromFlag(ParseDuration(options.mtbf, "--mtbf"), "--mtbf");
  }
  if (!options.checkpoint_time.empty()) {
    terms.checkpoint_s =
        FromFlag(ParseDuration(options.checkpoint_time, "--checkpoint-time"), "--checkpoint-time");
  }
  if (!options.storage_bandwidth.empty()) {
    terms.storage_bandwidth_bytes_per_s = FromFlag(
        ParseBandwidth(options.storage_bandwidth, "--storage-bandwidth"), "--storage-bandwidth");
  }
  if (!options.restart_time.empty()) {
    terms.restart_s =
        FromFlag(ParseDuration(options.restart_time, "--restart-time"), "--restart-time");
  }
  if (options.node_power_factor) {
    terms.node_power_factor = FromFlag(
        FactorFromFlag(*options.node_power_factor, "--node-power-factor"), "--node-power-factor");
  }
  if (options.power_usage_effectiveness) {
    terms.power_usage_effectiveness =
        FromFlag(FactorFromFlag(*options.power_usage_effectiveness, "--pue"), "--pue");
  }
  return terms;
}

}  // namespace tessera::planner
