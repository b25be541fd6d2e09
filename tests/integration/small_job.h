// A model, a text and plans so small that a training takes a second.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/command_runner.h"

namespace tessera::testing {

inline constexpr int kSmallVocabSize = 257;  // bytes and the end of a document
inline constexpr int kSmallBatchSize = 8;
inline constexpr int kSmallSequenceLength = 32;
// A layout of four ranks: 4 micro-batches of 2 samples go through 2 stages.
inline constexpr char kTensorAndPipeline[] = "--tp 2 --pp 2 --schedule 1f1b --micro-batch-size 2";
inline constexpr int kSmallNumMicrobatches = 4;

// A Llama of 4 layers as a file of ours; takes kSmallVocabSize tokens.
std::string SmallModel();
// `num_lines` lines of English-like words, the same on every call.
std::string SmallText(int num_lines);
// Keys of a hyper-parameter file: a learning rate at which the small model learns fast.
std::string SmallHyperparameters();

// Runs a command that must succeed; returns what it printed on stdout.
std::string RunWell(const std::string& line, const TemporaryFolder& folder);
nlohmann::json RunForJson(const std::string& line, const TemporaryFolder& folder);

// Writes model.json, train.json, text.txt and the token files corpus.bin, corpus.idx.
void MakeSmallJob(const TemporaryFolder& folder);
// Plans the small job over 4 local ranks with the flags of `layout` and writes the plan `name`.
void PlanSmall(const std::string& layout, const std::string& name, const TemporaryFolder& folder);

// A command line that trains on the small job's text and hyper-parameters.
inline std::string TrainOnCorpus(const std::string& rest) {
  return "train --data corpus --hyperparameters train.json --quiet " + rest;
}

// The rows of a --metrics file.
std::vector<nlohmann::json> ReadRows(const std::string& name, const TemporaryFolder& folder);

// Says that the loss of each row is within `relative` of that of the row of the same step.
void ExpectSameLosses(const std::vector<nlohmann::json>& rows,
                      const std::vector<nlohmann::json>& expected, double relative);

}  // namespace tessera::testing
