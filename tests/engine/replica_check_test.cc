// Planted faults: replicas that differ are found, and rank and tensor named.
#include "engine/train/replica_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>

#include "engine/train/rank_trainer.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/faulty_device.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

spec::Plan ReplicaPlan(const spec::ParallelSpec& parallel,
                       spec::Precision precision = spec::Precision::kFp32) {
  spec::Plan plan{.model = {.name = "small",
                            .num_layers = 2,
                            .hidden_size = 16,
                            .num_attention_heads = 2,
                            .num_key_value_heads = 2,
                            .head_dim = 8,
                            .ffn_hidden_size = 32,
                            .vocab_size = 64,
                            .max_sequence_length = 8,
                            .tied_embeddings = true},
                  .parallel = parallel,
                  .threads_per_rank = 1};
  plan.parallel.vocab_size_multiple = 8;
  plan.training = {
      .global_batch_size = 12, .sequence_length = 8, .steps = 4, .precision = precision};
  plan.num_devices = spec::WorldSize(parallel);
  return plan;
}

using RankWork = std::function<void(RankTrainer&, int rank)>;
using MakeDevice = std::function<std::unique_ptr<RankDevice>(Communicator&)>;

// What ReplicaError each rank ends with; "" for none.
std::vector<std::string> MessagesOf(const spec::Plan& plan, const MakeDevice& make_device,
                                    const RankWork& work) {
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  std::vector<std::string> messages(static_cast<size_t>(plan.num_devices));
  testing::RunRanks(plan.num_devices, [&](Communicator& world) {
    const auto device = make_device(world);
    RankTrainer trainer(plan, *device, world, source);
    try {
      work(trainer, world.rank());
    } catch (const ReplicaError& error) {
      messages[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  return messages;
}

std::unique_ptr<RankDevice> PlainDevice(Communicator& world) { return MakeRankDevice({}, world); }

// The lowest bit of an element of a parameter on this rank.
void FlipBit(const RankTrainer& trainer, const std::string& parameter, int64_t element) {
  const kernels::Array weight = trainer.store().Get(parameter).weight.At(element);
  auto* const byte = static_cast<uint8_t*>(weight.data);
  *byte ^= 1;
}

struct BitFlip {
  const char* name;
  spec::ParallelSpec parallel;
  std::string parameter;
  int rank;
  std::string others;  // that hold what is right
  spec::Precision precision = spec::Precision::kFp32;
};

class ReplicatedWeightTest : public ::testing::TestWithParam<BitFlip> {};

TEST_P(ReplicatedWeightTest, OneBitOnOneRankIsFoundAndRankStepAndTensorNamed) {
  const BitFlip& flip = GetParam();
  const spec::Plan plan = ReplicaPlan(flip.parallel, flip.precision);
  constexpr int64_t kElement = 5;
  const auto messages = MessagesOf(plan, PlainDevice, [&](RankTrainer& trainer, int rank) {
    EXPECT_GT(trainer.CheckReplicas(ReplicaKind::kWeights).num_replicated, 0);
    trainer.Step(false);
    trainer.CheckReplicas(ReplicaKind::kWeights);
    if (rank == flip.rank) FlipBit(trainer, flip.parameter, kElement);
    trainer.CheckReplicas(ReplicaKind::kWeights);
    ADD_FAILURE() << "rank " << rank << " goes on";
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message,
                AllOf(HasSubstr("weight " + flip.parameter + " "), HasSubstr("after step 1"),
                      HasSubstr("rank " + std::to_string(flip.rank) + " holds other bits than " +
                                flip.others),
                      HasSubstr("element 5 of the slice")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ReplicatedWeightTest,
    ::testing::Values(
        BitFlip{"data", {.data_parallel_size = 4}, "layers.1.mlp.up.weight", 2, "ranks 0, 1 and 3"},
        BitFlip{"unsharded",
                {.data_parallel_size = 3, .zero_stage = 0},
                "embedding.word.weight",
                1,
                "ranks 0 and 2"},
        // Norms lie whole on every tensor rank, of every data rank.
        BitFlip{"tensor",
                {.tensor_parallel_size = 2, .data_parallel_size = 2, .sequence_parallel = true},
                "layers.0.attention.norm.weight",
                3,
                "ranks 0, 1 and 2"},
        // A matrix is split over tensor ranks: its replicas are those of the same half.
        BitFlip{"slice",
                {.tensor_parallel_size = 2, .data_parallel_size = 3},
                "layers.0.mlp.up.weight",
                3,
                "ranks 1 and 5"},
        BitFlip{"tied",
                {.pipeline_parallel_size = 2, .data_parallel_size = 2},
                "embedding.word.weight",
                2,
                "ranks 0, 1 and 3"},
        BitFlip{"bf16",
                {.data_parallel_size = 4},
                "layers.1.mlp.up.weight",
                0,
                "ranks 1, 2 and 3",
                spec::Precision::kBf16}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ReplicaCheckTest, TwoRanksThatDifferHaveNoMajority) {
  const spec::Plan plan = ReplicaPlan({.data_parallel_size = 2});
  const auto messages = MessagesOf(plan, PlainDevice, [&](RankTrainer& trainer, int rank) {
    if (rank == 1) FlipBit(trainer, "final_norm.weight", 0);
    trainer.CheckReplicas(ReplicaKind::kWeights);
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message, AllOf(HasSubstr("final_norm.weight"), HasSubstr("at the start"),
                               HasSubstr("no majority"), HasSubstr("on rank 1 and 1 on rank 0")));
  }
}

TEST(ReplicaCheckTest, ABucketThatOneRankDidNotReduceIsFound) {
  const spec::Plan plan = ReplicaPlan({.data_parallel_size = 3, .zero_stage = 0});
  constexpr int kFaulty = 1;
  const auto faulty = [](Communicator& world) {
    const bool is_faulty = world.rank() == kFaulty;
    return testing::MakeLossyDevice(world, [is_faulty](const testing::CollectiveCall& call) {
      return is_faulty && call.kind == base::OpKind::kAllReduce && call.group.starts_with("grad");
    });
  };
  for (const ReplicaKind kind : {ReplicaKind::kGradients, ReplicaKind::kWeights}) {
    const auto messages = MessagesOf(plan, faulty, [&](RankTrainer& trainer, int) {
      trainer.CheckReplicas(ReplicaKind::kWeights);
      trainer.Step(false);
      trainer.CheckReplicas(kind);
    });
    const bool is_gradient = kind == ReplicaKind::kGradients;
    for (const std::string& message : messages) {
      EXPECT_THAT(message, AllOf(HasSubstr(is_gradient ? "reduced gradient " : "weight "),
                                 HasSubstr("after step 1"),
                                 HasSubstr("rank 1 holds other bits than ranks 0 and 2")));
    }
  }
}

// A shard has no replica: it is held against what the ranks put in.
class LeftOutShardTest : public ::testing::TestWithParam<spec::ParallelSpec> {};

TEST_P(LeftOutShardTest, IsFoundAndRankAndTensorNamed) {
  const spec::Plan plan = ReplicaPlan(GetParam());
  const int faulty = plan.num_devices - 1;
  const auto lossy = [&](Communicator& world) {
    const bool is_faulty = world.rank() == faulty;
    const bool is_sharded_in_groups = GetParam().zero_group_size > 0;
    return testing::MakeLossyDevice(world, [=](const testing::CollectiveCall& call) {
      return is_faulty && call.kind == base::OpKind::kReduceScatter &&
             call.group.starts_with(is_sharded_in_groups ? "shard" : "grad");
    });
  };
  const auto messages = MessagesOf(plan, lossy, [&](RankTrainer& trainer, int rank) {
    trainer.WatchReduction();
    trainer.Step(false);
    EXPECT_GT(trainer.CheckReduction(), 0);
    ADD_FAILURE() << "rank " << rank << " goes on";
  });
  const std::string rank = std::to_string(faulty);
  for (const std::string& message : messages) {
    EXPECT_THAT(message, AllOf(HasSubstr("step 1: the reduced gradient "),
                               HasSubstr(" of rank " + rank + " is not the sum")));
  }
}

TEST_P(LeftOutShardTest, NothingIsFoundWhereNothingIsWrong) {
  const auto messages =
      MessagesOf(ReplicaPlan(GetParam()), PlainDevice, [&](RankTrainer& trainer, int) {
        for (int step = 0; step < 2; ++step) {
          trainer.WatchReduction();
          trainer.Step(false);
          EXPECT_GT(trainer.CheckReduction(), 0);
        }
        EXPECT_EQ(trainer.CheckReduction(), 0);  // of a step that was not watched
      });
  EXPECT_THAT(messages, ::testing::Each(""));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, LeftOutShardTest,
    ::testing::Values(spec::ParallelSpec{.data_parallel_size = 3, .zero_stage = 1},
                      spec::ParallelSpec{
                          .data_parallel_size = 4, .zero_stage = 1, .zero_group_size = 2},
                      spec::ParallelSpec{.data_parallel_size = 3, .zero_stage = 2},
                      spec::ParallelSpec{.data_parallel_size = 2, .zero_stage = 3},
                      spec::ParallelSpec{.tensor_parallel_size = 2,
                                         .data_parallel_size = 2,
                                         .sequence_parallel = true,
                                         .zero_stage = 1},
                      spec::ParallelSpec{.tensor_parallel_size = 2,
                                         .data_parallel_size = 2,
                                         .sequence_parallel = true,
                                         .zero_stage = 2}));

TEST(ReplicaCheckTest, CountsEachPartThatSeveralRanksHoldOnce) {
  // Without tensor ranks every parameter is such a part; its bytes are all read.
  const spec::Plan plan = ReplicaPlan({.data_parallel_size = 2, .zero_stage = 0});
  MessagesOf(plan, PlainDevice, [&](RankTrainer& trainer, int) {
    const ReplicaCheck check = trainer.CheckReplicas(ReplicaKind::kWeights);
    EXPECT_EQ(check.num_replicated, static_cast<int64_t>(trainer.store().parameters().size()));
    int64_t num_elements = 0;
    for (const spec::FlatParameter& place : trainer.store().layout().parameters) {
      num_elements += place.num_elements;
    }
    EXPECT_EQ(check.num_bytes, num_elements * static_cast<int64_t>(sizeof(float)));
  });
  // One rank has no replicas.
  MessagesOf(ReplicaPlan({}), PlainDevice, [&](RankTrainer& trainer, int) {
    EXPECT_EQ(trainer.CheckReplicas(ReplicaKind::kWeights).num_replicated, 0);
  });
}

}  // namespace
}  // namespace tessera::engine
