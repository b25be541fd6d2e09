// What the program that a plan is for can run.
#include "planner/target.h"

#include <gtest/gtest.h>

#include "cost_model/spec/engine_limits.h"
#include "planner/search.h"
#include "tests/planner/test_requests.h"

namespace tessera::planner {
namespace {

TEST(TargetTest, PresetsNameTheirRuntimeAndLimits) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-40gb", 8, 32);
  for (const char* name : {"tessera", "megatron", "torchtitan", "deepspeed"}) {
    LoadTarget(name, request);
    EXPECT_FALSE(request.job.runtime.schedules.empty()) << name;
  }
  EXPECT_EQ(request.job.runtime.name, "deepspeed");
  EXPECT_EQ(request.target.context_kinds, std::vector<std::string>{"all-to-all"});
  LoadTarget("torchtitan", request);
  EXPECT_EQ(request.target.zero_stages, (std::vector<int>{0, 2, 3}));
}

TEST(TargetTest, EachLimitHasItsCode) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-40gb", 8, 32);  // 24 layers
  spec::RuntimeSpec& runtime = request.job.runtime;
  runtime.name = "plain";
  runtime.schedules = {"1f1b"};
  runtime.max_zero_stage = 0;
  runtime.uneven_stages = false;
  runtime.per_stage_recompute = false;
  runtime.context_parallel = false;
  runtime.expert_parallel = false;
  runtime.optimizer_offload = false;
  const auto code = [&](auto change) {
    spec::ParallelSpec layout;
    layout.zero_stage = 0;
    change(layout);
    const auto violation = FindTargetViolation(request, layout);
    return violation ? violation->constraint : "none";
  };
  using P = spec::ParallelSpec;
  EXPECT_EQ(code([](P&) {}), "none");
  EXPECT_EQ(code([](P& p) { p.context_parallel_size = 2; }), "target context parallelism");
  EXPECT_EQ(code([](P& p) { p.expert_parallel_size = 2; }), "target expert parallelism");
  EXPECT_EQ(code([](P& p) { p.pipeline_parallel_size = 5; }), "target uneven stages");
  EXPECT_EQ(code([](P& p) {
              p.pipeline_parallel_size = 2;
              p.schedule = spec::ScheduleKind::kZeroBubbleH1;
            }),
            "target schedule");
  EXPECT_EQ(code([](P& p) {
              p.data_parallel_size = 2;
              p.zero_stage = 1;
            }),
            "target zero stage");
  EXPECT_EQ(code([](P& p) {
              p.pipeline_parallel_size = 2;
              p.recompute = spec::Recompute::kFull;
              p.recomputed_layers_per_virtual_stage = {3, 1};
            }),
            "target per-stage recomputation");
  EXPECT_EQ(code([](P& p) { p.offload_optimizer = true; }), "target optimizer offload");
  EXPECT_EQ(code([](P& p) { p.overlap_tp_comm = true; }), "target overlap");
}

TEST(TargetTest, TheOwnEngineIsRecommendedNothingThatItRefuses) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-40gb", 8, 32);
  LoadTarget("tessera", request);
  request.pins.pipeline_parallel_size = 4;
  request.pins.schedule = spec::ScheduleKind::kZeroBubbleH1;
  cost_model::JobCosts costs(request.job);
  const SearchResult result = Search(request, costs);
  ASSERT_FALSE(result.rows.empty());
  for (const RankedLayout& row : result.rows) {
    EXPECT_LE(row.parallel.zero_stage, 2);
    EXPECT_TRUE(FindEngineLimits(request.job.model, request.job.training, row.parallel).empty());
  }

  request.pins.zero_stage = 3;  // which the engine does not run under this schedule
  const SearchResult refused = Search(request, costs);
  EXPECT_TRUE(refused.rows.empty());
  bool names_engine = false;
  for (const Rejection& rejection : refused.rejections) {
    names_engine = names_engine || rejection.constraint == "not executed";
  }
  EXPECT_TRUE(names_engine);
}

// Another program may well have what this engine lacks.
TEST(TargetTest, OtherProgramsAreNotHeldToTheOwnEnginesLimits) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-40gb", 8, 32);
  request.job.model.qk_norm = true;
  LoadTarget("megatron", request);
  EXPECT_FALSE(FindTargetViolation(request, {.zero_stage = 0}));
  LoadTarget("tessera", request);
  const auto violation = FindTargetViolation(request, {.zero_stage = 0});
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->constraint, "not executed");
}

}  // namespace
}  // namespace tessera::planner
