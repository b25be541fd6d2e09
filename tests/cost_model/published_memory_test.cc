// Memory that others measured.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cost_model/memory.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/step_cost.h"

namespace tessera::cost_model {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

struct PublishedMemory {
  std::string model;  // whose layers run
  int num_layers;
  int num_key_value_heads;
  int tp, pp, dp;
  int64_t num_microbatches;
  int stage;
  double allocated_gib;
};

// SimuMax, docs/b200/b200_release_v1.2_summary.json: most bytes allocated on the ranks of a stage,
// Megatron-LM with Transformer Engine on B200, sequence 4096, fused cross entropy, distributed
// optimizer; models cut to 12 and 4 layers.
const PublishedMemory kRows[] = {
    {"llama3-70b", 12, 8, 2, 1, 4, 4, 0, 60.680},   {"llama3-70b", 12, 8, 4, 1, 2, 4, 0, 39.072},
    {"llama3-70b", 12, 8, 8, 1, 1, 4, 0, 28.286},   {"llama3-70b", 12, 8, 1, 2, 4, 8, 0, 66.550},
    {"llama3-70b", 12, 8, 1, 2, 4, 8, 1, 62.967},   {"llama3-405b", 4, 16, 2, 1, 4, 8, 0, 81.591},
    {"llama3-405b", 4, 16, 4, 1, 2, 4, 0, 52.889},  {"llama3-405b", 4, 16, 8, 1, 1, 8, 0, 38.574},
    {"llama3-405b", 4, 16, 1, 2, 4, 32, 0, 86.610}, {"llama3-405b", 4, 16, 1, 2, 4, 32, 1, 87.083},
};

spec::StageMemory Predict(const PublishedMemory& row) {
  Job job;
  job.model = spec::LoadModel(row.model);
  job.model.num_layers = row.num_layers;
  job.model.num_key_value_heads = row.num_key_value_heads;
  job.model.vocab_size = 128257;  // one token more than the tokenizer's
  job.cluster = spec::LoadCluster("dgx-b200");
  job.num_devices = 8;
  job.training.global_batch_size = row.num_microbatches * row.dp;
  job.training.sequence_length = 4096;
  job.runtime = spec::LoadRuntime("megatron-core");
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = row.tp;
  parallel.pipeline_parallel_size = row.pp;
  parallel.data_parallel_size = row.dp;
  parallel.sequence_parallel = row.tp > 1;
  return MemoryOf(job.model, job.cluster, job.training, parallel,
                  spec::PartitionStages(job.model, parallel), job.runtime)[row.stage];
}

TEST(PublishedMemoryTest, AllocatedBytesOfDenseModelsAreWithinATenthOfAPercent) {
  for (const PublishedMemory& row : kRows) {
    const auto predicted = static_cast<double>(BytesIn(Predict(row), MemoryStatistic::kAllocated));
    EXPECT_LE(std::abs(predicted / kGiB / row.allocated_gib - 1), 0.001)
        << row.model << " tp " << row.tp << " pp " << row.pp << " stage " << row.stage << ": "
        << predicted / kGiB << " GiB for " << row.allocated_gib;
  }
}

TEST(PublishedMemoryTest, TermsSumToTheMemoryUsed) {
  for (const PublishedMemory& row : kRows) {
    const spec::StageMemory memory = Predict(row);
    int64_t sum_bytes = 0;
    for (const spec::MemoryTerm& term : memory.terms) {
      EXPECT_TRUE(term.tag == "measured" || term.tag == "estimated") << term.name;
      EXPECT_FALSE(term.source.empty()) << term.name;
      sum_bytes += term.num_bytes;
    }
    EXPECT_EQ(sum_bytes, memory.Used());
    EXPECT_LT(memory.Allocated(), memory.Reserved());
    EXPECT_LT(memory.Reserved(), memory.Used());
  }
}

}  // namespace
}  // namespace tessera::cost_model
