// Trainings of the golden cases under any layout, held against the reference step by step.
#pragma once

#include <string>

#include "engine/train/train_job.h"
#include "tests/testing/golden_case.h"

namespace tessera::testing {

// How far a training may be from the reference, relative to it. Infinity: not compared.
struct GoldenTolerance {
  double loss = 0;
  double grad_norm = 0;
};

// fp32 against float64: the reference program itself, run in fp32, stays within 6e-6 of its loss
// and norm and 2e-6 of its parameter norms.
inline constexpr GoldenTolerance kFp32Tolerance = {.loss = 2e-5, .grad_norm = 2e-5};
// A few units of the last of 8 and of 11 bits: ten steps move a loss by ten to two hundred of them.
inline constexpr GoldenTolerance kBf16Tolerance = {.loss = 4e-3, .grad_norm = 4e-2};
inline constexpr GoldenTolerance kFp16Tolerance = {.loss = 1e-3, .grad_norm = 2e-2};

std::string NameOf(const spec::ParallelSpec& parallel);

// The case's data and weights under a layout; the caller may change what it likes.
engine::TrainOptions GoldenOptions(const GoldenCase& golden, const spec::ParallelSpec& parallel);

// Trains and expects (as a test) each step to be the reference's; returns false, having done
// nothing, when the layout does not divide the model.
bool TrainAndCompare(const GoldenCase& golden, const engine::TrainOptions& options,
                     const GoldenTolerance& tolerance = kFp32Tolerance);

// |actual - expected| <= tolerance |expected|.
void ExpectClose(double actual, double expected, double tolerance, const std::string& what);

}  // namespace tessera::testing
