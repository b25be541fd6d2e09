// The model that a row ran.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/model_spec.h"
#include "planner/validation/measurement.h"

namespace tessera::planner {

// A gated MLP makes a model Llama-like (RMSNorm, no biases); rotary positions without a gate leave
// LayerNorm without biases; everything else is GPT-like (LayerNorm, biases).
spec::ModelSpec ModelOf(const Measurement& measurement);

// "128 on alternate layers": layers that attend to so many tokens, every second to all. Nothing
// where the text holds no number.
std::optional<spec::SlidingWindowSpec> ParseSlidingWindow(const std::string& text);

}  // namespace tessera::planner
