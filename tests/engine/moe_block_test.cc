// A mixture of experts on one rank: its gradients, its routers' losses included, against finite
// differences, and what a capacity drops.
#include "engine/layers/moe_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>

#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

constexpr int64_t kTokens = 24;  // three sequences of eight
constexpr int64_t kHidden = 16;

spec::ModelSpec Model(const spec::MoeSpec& moe, spec::ActivationKind activation) {
  return {.norm = spec::NormKind::kRmsNorm,
          .position = spec::PositionKind::kRope,
          .activation = activation,
          .num_layers = 1,
          .hidden_size = kHidden,
          .num_attention_heads = 2,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .ffn_hidden_size = 12,
          .vocab_size = 32,
          .max_sequence_length = 8,
          .moe = moe};
}

std::vector<float> Random(int64_t count, uint32_t seed, float size) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// One layer's experts on a rank of their own.
class Block {
 public:
  Block(Communicator& world, const spec::ModelSpec& model)
      : model_(model),
        backend_(kernels::MakeCpuBackend(1)),
        pool_(*backend_, {.poison = true}),
        groups_(world, parallel_, model.num_key_value_heads),
        tensor_comm_(*backend_),
        context_comm_(*backend_),
        expert_comm_(*backend_),
        context_{.backend = *backend_,
                 .pool = pool_,
                 .groups = groups_,
                 .model = model_,
                 .parallel = parallel_,
                 .types = spec::TypesOf(spec::Precision::kFp32),
                 .shape = spec::MakeLocalShape(
                     model_, {.global_batch_size = 3, .sequence_length = 8}, parallel_),
                 .loss = loss_,
                 .tensor_comm = tensor_comm_,
                 .context_comm = context_comm_,
                 .expert_comm = expert_comm_,
                 .part = part_,
                 .dropout = dropout_,
                 .documents = documents_},
        store_({{.num_layers = 1}}, model_, parallel_, context_.types, groups_, pool_),
        block_(context_, store_, 0) {
    loss_ = {.balance_sum = &sums_[0], .router_z_sum = &sums_[1]};
    const std::vector<float> weights = Random(store_.layout().num_elements, 3, 0.3F);
    std::copy(weights.begin(), weights.end(), store_.weights().As<float>());
  }

  struct Outcome {
    double value = 0;             // <weight of each output, output> + losses of the router
    std::vector<float> gradient;  // of the input
    std::vector<int32_t> rows;    // of the choices, as dispatched
    double losses[2] = {};        // balance, z
  };
  Outcome Run(const std::vector<float>& x, const std::vector<float>& output_weights) {
    backend_->Fill(store_.gradients(), store_.layout().num_elements, 0.0F);
    sums_[0] = sums_[1] = 0;
    MoeStash stash;
    stash.input = Upload(x);
    block_.ForwardToActivation(stash);
    const Buffer y = block_.ForwardFromActivation(stash, context_.LocalTokens(Lifetime::kStep));
    Buffer dy = Upload(output_weights);
    block_.Backward(stash, dy);
    Outcome outcome{.gradient = std::vector<float>(x.size()), .rows = stash.plan->outgoing.row};
    for (size_t i = 0; i < x.size(); ++i) {
      outcome.value += static_cast<double>(y.array().As<float>()[i]) * output_weights[i];
      outcome.gradient[i] = dy.array().As<float>()[i];
    }
    std::copy(std::begin(sums_), std::end(sums_), outcome.losses);
    outcome.value += sums_[0] + sums_[1];
    return outcome;
  }

  const ParameterStore& store() const { return store_; }

 private:
  Buffer Upload(const std::vector<float>& values) const {
    Buffer buffer = context_.Activation(static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), buffer.array().As<float>());
    return buffer;
  }

  const spec::ModelSpec model_;
  const spec::ParallelSpec parallel_{.micro_batch_size = 3};
  std::unique_ptr<kernels::Backend> backend_;
  MemoryPool pool_;
  ProcessGroups groups_;
  SpanLog tensor_comm_;
  SpanLog context_comm_;
  SpanLog expert_comm_;
  BackwardPart part_;
  DropoutState dropout_;
  DocumentState documents_;
  double sums_[2] = {};
  LossTarget loss_;
  LayerContext context_;
  ParameterStore store_;
  MoeBlock block_;
};

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// Along the gradient, where a slope is large, and off it, where a part that it lacks shows.
std::vector<float> DirectionNear(std::span<const float> gradient, uint32_t seed) {
  std::vector<float> direction = Random(static_cast<int64_t>(gradient.size()), seed, 1);
  const double random_size = std::sqrt(Dot(direction, direction));
  const double gradient_size = std::sqrt(Dot(gradient, gradient));
  for (size_t i = 0; i < direction.size(); ++i) {
    direction[i] = static_cast<float>(direction[i] / random_size + gradient[i] / gradient_size);
  }
  return direction;
}

// The slope of the block's value by differences and by its gradients: of its input first, then of
// all of its weights together.
void ExpectSlopesMatch(Block& block) {
  std::vector<float> x = Random(kTokens * kHidden, 1, 1);
  const std::vector<float> output_weights = Random(kTokens * kHidden, 2, 1);
  const Block::Outcome here = block.Run(x, output_weights);
  const auto num_weights = static_cast<size_t>(block.store().layout().num_elements);
  const std::span<float> weights(block.store().weights().As<float>(), num_weights);
  const float* const found = block.store().gradients().As<float>();
  const std::vector<float> weight_gradients(found, found + num_weights);
  const auto expect_slope = [&](std::span<float> values, std::span<const float> gradient) {
    constexpr float kStep = 1.0F / 64;
    const std::vector<float> direction = DirectionNear(gradient, 4);
    const auto value_at = [&](float step) {
      for (size_t i = 0; i < values.size(); ++i) values[i] += step * direction[i];
      const Block::Outcome moved = block.Run(x, output_weights);
      for (size_t i = 0; i < values.size(); ++i) values[i] -= step * direction[i];
      EXPECT_EQ(moved.rows, here.rows) << "another choice of experts: take a smaller step";
      return moved.value;
    };
    const double slope = (value_at(kStep) - value_at(-kStep)) / (2.0 * kStep);
    // Second differences of fp32 values: three digits.
    EXPECT_NEAR(slope / Dot(direction, gradient), 1, 2e-3);
  };
  expect_slope(x, here.gradient);
  expect_slope(weights, weight_gradients);
}

spec::MoeSpec Moe() {
  return {.num_experts = 4, .experts_per_token = 2, .expert_ffn_hidden_size = 12};
}

TEST(MoeBlockTest, GradientsAreSlopes) {
  testing::RunRanks(1, [](Communicator& world) {
    for (const auto activation : {spec::ActivationKind::kSwiGlu, spec::ActivationKind::kGelu}) {
      for (const bool normalized : {false, true}) {
        spec::MoeSpec moe = Moe();
        moe.normalized_router_weights = normalized;
        Block block(world, Model(moe, activation));
        SCOPED_TRACE(normalized ? "normalized" : "probabilities");
        ExpectSlopesMatch(block);
      }
    }
  });
}

TEST(MoeBlockTest, LossesOfTheRouterHaveTheirGradients) {
  testing::RunRanks(1, [](Communicator& world) {
    for (const auto& [balance, z] : {std::pair{2.0, 0.0}, {0.0, 0.5}, {2.0, 0.5}}) {
      spec::MoeSpec moe = Moe();
      moe.auxiliary_loss_coefficient = balance;
      moe.z_loss_coefficient = z;
      Block block(world, Model(moe, spec::ActivationKind::kSwiGlu));
      SCOPED_TRACE(balance);
      ExpectSlopesMatch(block);
    }
  });
}

TEST(MoeBlockTest, GradientsAreSlopesWhereACapacityDropsTokens) {
  testing::RunRanks(1, [](Communicator& world) {
    spec::MoeSpec moe = Moe();
    moe.capacity_factor = 0.8;
    Block block(world, Model(moe, spec::ActivationKind::kSwiGlu));
    const std::vector<float> x = Random(kTokens * kHidden, 1, 1);
    const std::vector<int32_t> rows = block.Run(x, x).rows;
    // Each of 4 experts takes ceil(0.8 * 24 * 2 / 4) = 10 of 48 choices at most.
    const auto num_dropped = std::count(rows.begin(), rows.end(), -1);
    EXPECT_GE(num_dropped, 48 - 4 * 10);
    EXPECT_LT(num_dropped, 48);
    ExpectSlopesMatch(block);
  });
}

TEST(MoeBlockTest, SharedExpertsHaveTheirGradients) {
  testing::RunRanks(1, [](Communicator& world) {
    for (const bool has_gate : {false, true}) {
      spec::MoeSpec moe = Moe();
      moe.shared_expert_ffn_hidden_size = 20;
      moe.shared_expert_gate = has_gate;
      Block block(world, Model(moe, spec::ActivationKind::kSwiGlu));
      SCOPED_TRACE(has_gate ? "gated" : "plain");
      ExpectSlopesMatch(block);
    }
  });
}

// A loss of 1 times its coefficient for each token where routing is even: DeepSeek-V3,
// arXiv:2412.19437, eq. 17-20 with f = 1 and P = 1 / E.
TEST(MoeBlockTest, EvenRoutingHasABalanceLossOfOneToken) {
  testing::RunRanks(1, [](Communicator& world) {
    spec::MoeSpec moe = Moe();
    moe.auxiliary_loss_coefficient = 0.5;
    moe.forced_uniform_routing = true;
    Block block(world, Model(moe, spec::ActivationKind::kSwiGlu));
    const std::vector<float> x = Random(kTokens * kHidden, 1, 1);
    EXPECT_NEAR(block.Run(x, x).losses[0], 0.5 * kTokens, 1e-5 * kTokens);
  });
}

}  // namespace
}  // namespace tessera::engine
