// What the backend's methods for experts promise for every backend: records and checks.
#include "tests/kernels/device_array.h"
#include "tests/kernels/recorded_backend.h"

namespace tessera::kernels::testing {
namespace {

using base::CheckFailure;
using base::Epilogue;
using base::MatMulLayout;
using base::OpKind;
using base::OpRecord;

class BackendExpertsTest : public RecordedBackendTest {
 protected:
  DeviceFloats f{*backend, Floats(100)}, g{*backend, Floats(100)}, h{*backend, Floats(100)};
  DeviceFloats p{*backend, Floats(100)}, q{*backend, Floats(100)};
  DeviceInts ints{*backend, std::vector<int32_t>(100)};
  const int64_t groups[3] = {2, 0, 3};
  GroupedMatMulArgs product{.a = f,
                            .b = g,
                            .c = h,
                            .group_rows = groups,
                            .num_groups = 3,
                            .m = 5,
                            .n = 4,
                            .k = 6,
                            .group_stride = 24};
};

TEST_F(BackendExpertsTest, GroupedProductsReportTheSumOfTheirRows) {
  ExpectRecord({OpKind::kGroupedMatMul, {5, 4, 6, 1, 0, 0, 3}},
               [&] { backend->GroupedMatMul(product); });
  product.epilogue = Epilogue::kBias;
  product.bias = p;
  product.bias_stride = 4;
  product.layout = MatMulLayout::kNN;
  ExpectRecord({OpKind::kGroupedMatMul, {5, 4, 6, 0, 0, 1, 3}},
               [&] { backend->GroupedMatMul(product); });
  const GroupedMatMulArgs gradient{.a = f,
                                   .b = g,
                                   .c = h,
                                   .group_rows = groups,
                                   .num_groups = 3,
                                   .m = 6,
                                   .n = 4,
                                   .k = 5,
                                   .group_stride = 24,
                                   .layout = MatMulLayout::kTN};
  ExpectRecord({OpKind::kGroupedMatMul, {6, 4, 5, 2, 1, 0, 3}},
               [&] { backend->GroupedMatMul(gradient); });
  ExpectRecord({OpKind::kBiasGrad, {5, 4}}, [&] {
    backend->GroupedBiasGrad({.dy = f,
                              .dbias = g,
                              .group_rows = groups,
                              .num_groups = 3,
                              .num_rows = 5,
                              .width = 4,
                              .bias_stride = 4});
  });
}

TEST_F(BackendExpertsTest, RoutersReportRowsExpertsAndChoices) {
  ExpectRecord({OpKind::kRouterForward, {5, 4, 2}}, [&] {
    backend->RouterForward({.logits = f,
                            .probabilities = g,
                            .log_sum_exp = h,
                            .chosen = ints,
                            .weight = p,
                            .num_rows = 5,
                            .num_experts = 4,
                            .num_chosen = 2});
  });
  ExpectRecord({OpKind::kExpertCount, {5, 4, 2}}, [&] {
    backend->ExpertCount({.chosen = ints,
                          .counts = f,
                          .num_rows = 5,
                          .num_experts = 4,
                          .num_chosen = 2,
                          .first_row = 3,
                          .sequence = 4,
                          .num_sequences = 2});
  });
  ExpectRecord({OpKind::kRouterBackward, {5, 4, 2}}, [&] {
    backend->RouterBackward({.probabilities = g,
                             .log_sum_exp = h,
                             .chosen = ints,
                             .weight = p,
                             .dweight = q,
                             .dlogits = f,
                             .num_rows = 5,
                             .num_experts = 4,
                             .num_chosen = 2});
  });
}

TEST_F(BackendExpertsTest, ActivationsReportWhetherRowsHaveWeights) {
  ExpectRecord({OpKind::kSwiGluForward, {3, 4, 1}}, [&] {
    backend->SwiGluForward({.gate_up = f, .row_weight = g, .y = h, .num_rows = 3, .width = 4});
  });
  ExpectRecord({OpKind::kSwiGluBackward, {3, 4, 1}}, [&] {
    backend->SwiGluBackward({.dy = f,
                             .gate_up = g,
                             .row_weight = h,
                             .dgate_up = p,
                             .dweight = q,
                             .num_rows = 3,
                             .width = 4});
  });
  ExpectRecord({OpKind::kWeightedGeluForward, {3, 4}}, [&] {
    backend->WeightedGeluForward({.x = f, .row_weight = g, .y = h, .num_rows = 3, .width = 4});
  });
  ExpectRecord({OpKind::kWeightedGeluBackward, {3, 4}}, [&] {
    backend->WeightedGeluBackward(
        {.dy = f, .x = g, .row_weight = h, .dx = p, .dweight = q, .num_rows = 3, .width = 4});
  });
}

// A rank to which the router sends nothing.
TEST_F(BackendExpertsTest, NoRowsAtAllAreNoError) {
  const int64_t none[3] = {0, 0, 0};
  product.group_rows = none;
  product.m = 0;
  product.a = nullptr;
  product.c = nullptr;
  ExpectRecord({OpKind::kGroupedMatMul, {0, 4, 6, 1, 0, 0, 3}},
               [&] { backend->GroupedMatMul(product); });
  ExpectRecord({OpKind::kSwiGluForward, {0, 4, 1}},
               [&] { backend->SwiGluForward({.row_weight = g, .width = 4}); });
  ExpectRecord({OpKind::kTokenPermute, {0, 4, 5}},
               [&] { backend->TokenPermute({.width = 4, .num_tokens = 5}); });
  const DeviceFloats out = Unset(*backend, 8);
  const DeviceInts nowhere(*backend, {-1, -1});
  ExpectRecord({OpKind::kTokenUnpermute, {0, 4, 2}}, [&] {
    backend->TokenUnpermute(
        {.routed_row = nowhere, .out = out, .width = 4, .num_tokens = 2, .copies = 1});
  });
  EXPECT_EQ(out.Values(), Floats(8, 0.0F));
}

TEST_F(BackendExpertsTest, ArgumentsThatContradictEachOtherFail) {
  const auto expect_failure = [&](auto change) {
    GroupedMatMulArgs args = product;
    change(args);
    EXPECT_THROW(backend->GroupedMatMul(args), CheckFailure);
  };
  expect_failure([](auto& args) { args.m = 6; });  // groups have 5 rows
  expect_failure([](auto& args) { args.group_stride = 23; });
  expect_failure([](auto& args) { args.epilogue = Epilogue::kBias; });
  expect_failure([](auto& args) { args.epilogue = Epilogue::kGeluGrad; });
  expect_failure([](auto& args) { args.group_rows = nullptr; });
  const int64_t negative[3] = {6, -1, 0};
  expect_failure([&](auto& args) { args.group_rows = negative; });
  RouterForwardArgs router{.logits = f,
                           .probabilities = g,
                           .log_sum_exp = h,
                           .chosen = ints,
                           .weight = p,
                           .num_rows = 5,
                           .num_experts = 4,
                           .num_chosen = 5};
  EXPECT_THROW(backend->RouterForward(router), CheckFailure);
  EXPECT_THROW(backend->ExpertCount({.chosen = ints,
                                     .counts = f,
                                     .num_rows = 5,
                                     .num_experts = 4,
                                     .num_chosen = 2,
                                     .first_row = 4,
                                     .sequence = 4,
                                     .num_sequences = 2}),
               CheckFailure);
  EXPECT_THROW(
      backend->SwiGluBackward(
          {.dy = f, .gate_up = g, .row_weight = h, .dgate_up = p, .num_rows = 3, .width = 4}),
      CheckFailure);
}

}  // namespace
}  // namespace tessera::kernels::testing
