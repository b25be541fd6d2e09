// What to do with a step whose loss or gradients are no numbers, or far off.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "engine/optimizer/train_state.h"

namespace tessera::engine {

enum class NanAction : uint8_t { kStop, kSkip };
enum class SpikeAction : uint8_t { kIgnore, kSkip, kStop };

// Throw base::ConfigError, naming the flag, for another word.
NanAction NanActionFromString(const std::string& text);      // "stop", "skip"
SpikeAction SpikeActionFromString(const std::string& text);  // "ignore", "skip", "stop"

struct GuardOptions {
  NanAction on_nan = NanAction::kStop;
  SpikeAction on_spike = SpikeAction::kIgnore;
  double spike_loss_factor = 2;     // a loss above so many times the mean of the last ones; 0: none
  double spike_grad_norm = 0;       // a norm of the gradient above it; 0: none
  int64_t most_skipped_steps = 10;  // in a row; one more ends the run
};

enum class Verdict : uint8_t { kApply, kSkip, kStop };

struct Judgement {
  Verdict verdict = Verdict::kApply;
  std::string reason;  // what was found; "" where nothing was
  bool is_finite = true;
};

class StepGuard {
 public:
  // Losses of applied steps whose mean a loss is held against; with fewer than the second number
  // none is a spike.
  static constexpr size_t kNumRecentLosses = 100;
  static constexpr size_t kFewestLosses = 5;

  // Goes on from the steps before, of which a guard with other options may have judged.
  explicit StepGuard(const GuardOptions& options, RecentSteps recent = {})
      : options_(options), recent_(std::move(recent)) {}

  // Judges the next step. The same numbers give every rank the same judgement.
  Judgement Judge(double loss, double grad_norm);

  const GuardOptions& options() const { return options_; }
  const RecentSteps& recent() const { return recent_; }

 private:
  std::string SpikeIn(double loss, double grad_norm) const;
  double MeanLoss() const;

  GuardOptions options_;
  RecentSteps recent_;
};

}  // namespace tessera::engine
