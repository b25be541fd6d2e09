#pragma once

#include "engine/data/sample_source.h"

namespace tessera::testing {

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
