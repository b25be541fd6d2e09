// What Megatron-LM's arguments say of routers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cost_model/spec/spec_json.h"
#include "tests/spec/spec_json_files.h"

namespace tessera::spec {
namespace {

using ::testing::HasSubstr;

class MegatronRoutersTest : public FileTest {
 protected:
  ModelSpec Load(const std::string& text) const { return LoadModel(Write("args.json", text)); }
  std::string ErrorOf(const std::string& text) const {
    return ConfigErrorOf([&] { Load(text); });
  }
};

TEST_F(MegatronRoutersTest, RoutersAreDescribed) {
  const std::string model = R"({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
                                "seq_length": 32, "num_moe_experts": 8, MORE})";
  const auto moe = [&](const char* more) { return Load(Replaced(model, "MORE", more)).moe; };
  // Megatron-LM's softmax over the chosen experts is that over all of them, normalised.
  EXPECT_TRUE(moe(R"("moe_router_topk": 2)")->normalized_router_weights);
  EXPECT_FALSE(moe(R"("moe_router_pre_softmax": true)")->normalized_router_weights);
  const auto losses = moe(R"("moe_aux_loss_coeff": 0.01, "moe_z_loss_coeff": 0.001)");
  EXPECT_EQ(losses->auxiliary_loss_coefficient, 0.01);
  EXPECT_EQ(losses->z_loss_coefficient, 0.001);
  EXPECT_EQ(moe(R"("moe_aux_loss_coeff": 0.01, "moe_router_load_balancing_type": "none")")
                ->auxiliary_loss_coefficient,
            0);
  EXPECT_TRUE(moe(R"("moe_router_force_load_balancing": true)")->forced_uniform_routing);
  EXPECT_THAT(ErrorOf(Replaced(model, "MORE", R"("moe_router_load_balancing_type": "sinkhorn")")),
              HasSubstr("moe_router_load_balancing_type"));
}

}  // namespace
}  // namespace tessera::spec
