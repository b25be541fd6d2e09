// Small models and the layouts over which prediction and execution are held together.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/plan.h"
#include "engine/data/sample_source.h"

namespace tessera::testing {

struct NamedPlan {
  std::string name;
  spec::Plan plan;
};

// GPT (tied, odd vocabulary), Llama (grouped heads, fewer than tp in places) and Qwen2 (q/k/v
// biases, untied) under every schedule, recomputation, sharding and attention kind.
std::vector<NamedPlan> ConformancePlans();

// Tokens made up from the sample's number.
class CountingSource : public engine::SampleSource {
 public:
  CountingSource(int64_t sequence_length, int64_t vocab_size)
      : sequence_length_(sequence_length), vocab_size_(vocab_size) {}
  void Read(int64_t sample, int32_t* tokens) const override {
    for (int64_t i = 0; i <= sequence_length_; ++i) {
      tokens[i] = static_cast<int32_t>((sample * 31 + i * i + i * 7) % vocab_size_);
    }
  }
  int64_t sequence_length() const override { return sequence_length_; }
  int64_t num_samples() const override { return 1000; }
  int32_t max_token() const override { return static_cast<int32_t>(vocab_size_ - 1); }

 private:
  int64_t sequence_length_;
  int64_t vocab_size_;
};

}  // namespace tessera::testing
