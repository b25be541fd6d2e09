// What the backend's public methods promise for every backend: records and checks.
#include "kernels/backend.h"

#include <gtest/gtest.h>

#include "tests/kernels/device_array.h"
#include "tests/kernels/recorded_backend.h"

namespace tessera::kernels::testing {
namespace {

constexpr double kFrequencies[4] = {1, 0.1, 0.01, 0.001};

using base::AttentionStats;
using base::CheckFailure;
using base::Epilogue;
using base::MatMulLayout;
using base::OpKind;
using base::OpRecord;

class BackendTest : public RecordedBackendTest {
 protected:
  // Room for every array of the small shapes below.
  DeviceFloats f{*backend, Floats(512, 0.5F)}, g{*backend, Floats(512, 0.5F)};
  DeviceFloats h{*backend, Floats(512, 0.5F)}, p{*backend, Floats(512, 0.5F)};
  DeviceFloats q{*backend, Floats(512, 0.5F)}, r{*backend, Floats(512, 0.5F)};
  DeviceInts tokens{*backend, std::vector<int32_t>(8, 1)};
};

TEST_F(BackendTest, MatMulReportsShapeLayoutAccumulationAndEpilogue) {
  ExpectRecord({OpKind::kMatMul, {4, 5, 6, 2, 1, 0}}, [&] {
    backend->MatMul({.a = f,
                     .b = g,
                     .c = h,
                     .m = 4,
                     .n = 5,
                     .k = 6,
                     .lda = 4,
                     .ldb = 5,
                     .ldc = 5,
                     .layout = MatMulLayout::kTN,
                     .accumulate = true});
  });
  ExpectRecord({OpKind::kMatMul, {4, 5, 6, 1, 0, 2}}, [&] {
    backend->MatMul({.a = f,
                     .b = g,
                     .c = h,
                     .m = 4,
                     .n = 5,
                     .k = 6,
                     .lda = 6,
                     .ldb = 6,
                     .ldc = 5,
                     .epilogue = Epilogue::kBiasGelu,
                     .bias = p,
                     .aux = q});
  });
}

TEST_F(BackendTest, NormsReportRowsWidthAndTheResidual) {
  const NormForwardArgs forward{.x = f,
                                .gamma = g,
                                .beta = h,
                                .y = p,
                                .mean = q,
                                .rstd = r,
                                .num_rows = 3,
                                .width = 7,
                                .epsilon = 1e-5F};
  NormForwardArgs rms_forward = forward;
  rms_forward.beta = nullptr;
  rms_forward.mean = nullptr;
  ExpectRecord({OpKind::kLayerNormForward, {3, 7}}, [&] { backend->LayerNormForward(forward); });
  ExpectRecord({OpKind::kRmsNormForward, {3, 7}}, [&] { backend->RmsNormForward(rms_forward); });
  NormBackwardArgs backward{.dy = f,
                            .x = g,
                            .gamma = h,
                            .mean = p,
                            .rstd = p,
                            .dx = q,
                            .dgamma = r.At(0),
                            .dbeta = r.At(100),
                            .num_rows = 3,
                            .width = 7};
  ExpectRecord({OpKind::kLayerNormBackward, {3, 7, 0}},
               [&] { backend->LayerNormBackward(backward); });
  backward.residual_grad = f;
  ExpectRecord({OpKind::kLayerNormBackward, {3, 7, 1}},
               [&] { backend->LayerNormBackward(backward); });
  backward.mean = nullptr;
  backward.dbeta = nullptr;
  ExpectRecord({OpKind::kRmsNormBackward, {3, 7, 1}}, [&] { backend->RmsNormBackward(backward); });
}

TEST_F(BackendTest, RowOperationsReportTheirShape) {
  ExpectRecord({OpKind::kResidualAdd, {3, 7, 0}}, [&] {
    backend->ResidualAdd({.x = f, .residual = g, .y = h, .num_rows = 3, .width = 7});
  });
  ExpectRecord({OpKind::kResidualAdd, {3, 7, 1}}, [&] {
    backend->ResidualAdd({.x = f, .residual = g, .bias = p, .y = h, .num_rows = 3, .width = 7});
  });
  ExpectRecord({OpKind::kBiasGrad, {3, 7}}, [&] {
    backend->BiasGrad({.dy = f, .dbias = g, .num_rows = 3, .width = 7, .stride = 9});
  });
  ExpectRecord({OpKind::kSwiGluForward, {3, 7}},
               [&] { backend->SwiGluForward({.gate_up = f, .y = g, .num_rows = 3, .width = 7}); });
  ExpectRecord({OpKind::kSwiGluBackward, {3, 7}}, [&] {
    backend->SwiGluBackward({.dy = f, .gate_up = g, .dgate_up = h, .num_rows = 3, .width = 7});
  });
  ExpectRecord({OpKind::kRope, {6, 4, 8, 1}}, [&] {
    backend->Rope({.qk = f,
                   .inverse_frequency = kFrequencies,
                   .num_rows = 6,
                   .sequence = 3,
                   .num_heads = 4,
                   .head_dim = 8,
                   .stride = 40,
                   .inverse = true});
  });
}

TEST_F(BackendTest, AttentionReportsHeadsAndWhatItKeeps) {
  ExpectRecord({OpKind::kAttentionForward, {2, 3, 4, 2, 8, 1}}, [&] {
    backend->AttentionForward({.q = f,
                               .k = g,
                               .v = h,
                               .out = p,
                               .stats = q,
                               .stats_kind = AttentionStats::kProbabilities,
                               .batch = 2,
                               .sequence = 3,
                               .num_heads = 4,
                               .num_kv_heads = 2,
                               .head_dim = 8,
                               .qkv_stride = 32,
                               .out_stride = 32});
  });
  const DeviceFloats dq(*backend, Floats(512)), dk(*backend, Floats(512));
  ExpectRecord({OpKind::kAttentionBackward, {2, 3, 4, 2, 8, 0}}, [&] {
    backend->AttentionBackward({.dout = f,
                                .q = f,
                                .k = g,
                                .v = h,
                                .out = p,
                                .stats = q,
                                .dq = dq,
                                .dk = dk,
                                .dv = r,
                                .batch = 2,
                                .sequence = 3,
                                .num_heads = 4,
                                .num_kv_heads = 2,
                                .head_dim = 8,
                                .qkv_stride = 32,
                                .out_stride = 32,
                                .dqkv_stride = 32});
  });
}

TEST_F(BackendTest, EmbeddingsReportTheVocabularyHeldHere) {
  ExpectRecord({OpKind::kEmbeddingForward, {8, 7, 5}}, [&] {
    backend->EmbeddingForward(
        {.tokens = tokens, .table = f, .out = g, .num_rows = 8, .width = 7, .num_vocab_rows = 5});
  });
  ExpectRecord({OpKind::kEmbeddingBackward, {8, 7, 5}}, [&] {
    backend->EmbeddingBackward(
        {.tokens = tokens, .dout = f, .dtable = g, .num_rows = 8, .width = 7, .num_vocab_rows = 5});
  });
  ExpectRecord({OpKind::kPositionForward, {8, 7}}, [&] {
    backend->PositionForward({.table = f, .x = g, .num_rows = 8, .width = 7, .sequence = 4});
  });
  ExpectRecord({OpKind::kPositionBackward, {8, 7}}, [&] {
    backend->PositionBackward({.dx = f, .dtable = g, .num_rows = 8, .width = 7, .sequence = 4});
  });
}

TEST_F(BackendTest, CrossEntropyReportsColumnsWithTheirPadding) {
  double sum = 0;
  ExpectRecord({OpKind::kCrossEntropyMax, {8, 16}}, [&] {
    backend->CrossEntropyMax(
        {.logits = f, .max = g, .num_rows = 8, .num_columns = 16, .num_valid = 10});
  });
  ExpectRecord({OpKind::kCrossEntropySumExp, {8, 16}}, [&] {
    backend->CrossEntropySumExp({.logits = f,
                                 .labels = tokens,
                                 .max = g,
                                 .sum_exp = h,
                                 .target_logit = p,
                                 .num_rows = 8,
                                 .num_columns = 16,
                                 .num_valid = 10});
  });
  ExpectRecord({OpKind::kCrossEntropyGrad, {8, 16}}, [&] {
    backend->CrossEntropyGrad({.logits = f,
                               .labels = tokens,
                               .max = g,
                               .sum_exp = h,
                               .target_logit = p,
                               .loss = q,
                               .loss_sum = &sum,
                               .num_rows = 8,
                               .num_columns = 16,
                               .num_valid = 10});
  });
}

TEST_F(BackendTest, ElementwisePassesReportTheirLength) {
  double sum = 0;
  ExpectRecord({OpKind::kSumOfSquares, {100}},
               [&] { backend->SumOfSquares({.x = f, .sum = &sum, .n = 100}); });
  ExpectRecord({OpKind::kAdamW, {100}}, [&] {
    backend->AdamW({.param = f,
                    .grad = g,
                    .m = h,
                    .v = p,
                    .n = 100,
                    .beta1 = 0.9F,
                    .beta2 = 0.9F,
                    .epsilon = 1e-8F});
  });
  ExpectRecord({OpKind::kScale, {100}}, [&] { backend->Scale(f, 100, 2); });
  ExpectRecord({OpKind::kAdd, {100}}, [&] { backend->Add(f, g, 100); });
  ExpectRecord({OpKind::kFill, {100}}, [&] { backend->Fill(f, 100, 2); });
  ExpectRecord({OpKind::kCopy, {100}}, [&] { backend->Copy(f, g, 100); });
}

TEST_F(BackendTest, WrongMatMulArgumentsAreRefused) {
  const MatMulArgs good{
      .a = f, .b = g, .c = h, .m = 4, .n = 5, .k = 6, .lda = 6, .ldb = 6, .ldc = 5};
  EXPECT_NO_THROW(backend->MatMul(good));
  const auto refuses = [&](auto change) {
    MatMulArgs args = good;
    change(args);
    EXPECT_THROW(backend->MatMul(args), CheckFailure);
  };
  refuses([](MatMulArgs& args) { args.a = nullptr; });
  refuses([](MatMulArgs& args) { args.m = 0; });
  refuses([](MatMulArgs& args) { args.lda = 5; });
  refuses([](MatMulArgs& args) { args.ldb = 5; });
  refuses([](MatMulArgs& args) { args.ldc = 4; });
  refuses([](MatMulArgs& args) { args.layout = MatMulLayout::kNN, args.ldb = 4; });
  refuses([](MatMulArgs& args) { args.epilogue = Epilogue::kBias; });
  refuses([&](MatMulArgs& args) { args.bias = p; });
  refuses([&](MatMulArgs& args) { args.epilogue = Epilogue::kGeluGrad; });
  refuses([&](MatMulArgs& args) {
    args.epilogue = Epilogue::kBias;
    args.bias = p;
    args.accumulate = true;
  });
}

TEST_F(BackendTest, WrongShapesAndAliasesAreRefused) {
  EXPECT_THROW(
      backend->RmsNormForward({.x = f, .gamma = g, .y = f, .rstd = h, .num_rows = 2, .width = 4}),
      CheckFailure);
  EXPECT_THROW(
      backend->LayerNormForward({.x = f, .gamma = g, .y = h, .rstd = p, .num_rows = 2, .width = 4}),
      CheckFailure);
  EXPECT_THROW(backend->AttentionForward({.q = f,
                                          .k = f,
                                          .v = f,
                                          .out = g,
                                          .stats = h,
                                          .batch = 1,
                                          .sequence = 2,
                                          .num_heads = 3,
                                          .num_kv_heads = 2,
                                          .head_dim = 4,
                                          .qkv_stride = 12,
                                          .out_stride = 12}),
               CheckFailure);
  EXPECT_THROW(backend->Rope({.qk = f,
                              .inverse_frequency = kFrequencies,
                              .num_rows = 1,
                              .sequence = 1,
                              .num_heads = 1,
                              .head_dim = 3,
                              .stride = 3}),
               CheckFailure);
  EXPECT_THROW(backend->CrossEntropyMax(
                   {.logits = f, .max = g, .num_rows = 1, .num_columns = 4, .num_valid = 5}),
               CheckFailure);
  EXPECT_THROW(backend->Add(f, nullptr, 3), CheckFailure);
  EXPECT_THROW(backend->Copy(tokens, f, 3), CheckFailure);
  EXPECT_THROW(backend->Fill(f, -1, 0), CheckFailure);
}

TEST_F(BackendTest, ArraysOfAnotherTypeAreRefused) {
  EXPECT_THROW(backend->Scale(tokens, 3, 2), CheckFailure);
}

}  // namespace
}  // namespace tessera::kernels::testing
