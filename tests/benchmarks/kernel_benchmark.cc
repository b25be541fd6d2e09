// Speed of the kernels as a share of what the machine can do, measured in the same moment: every
// iteration also times a plain matrix product (or a plain pass over memory) on as many threads.
// Both best times count, since other work on the machine only ever adds time.
//
//   kernel_benchmark --benchmark_filter=MatMul
//
// Shapes are those of GPT-2 124M: 4 sequences of 256 tokens, hidden size 768, vocabulary 50304.
#include "tests/benchmarks/kernel_peaks.h"

namespace tessera::kernels {
namespace {

using base::AttentionStats;
using base::Epilogue;
using base::MatMulLayout;

// Arguments: threads, m, n, k, layout, epilogue, accumulate.
void MatMul(benchmark::State& state) {
  const int num_threads = static_cast<int>(state.range(0));
  const int64_t m = state.range(1), n = state.range(2), k = state.range(3);
  const auto layout = static_cast<MatMulLayout>(state.range(4));
  const auto epilogue = static_cast<Epilogue>(state.range(5));
  const auto backend = MakeCpuBackend(num_threads);
  const Buffer a(*backend, m * k), b(*backend, n * k), c(*backend, m * n);
  const Buffer bias(*backend, n), aux(*backend, m * n);
  const bool has_bias = epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasGelu;
  const bool has_aux = epilogue == Epilogue::kBiasGelu || epilogue == Epilogue::kGeluGrad;
  MatMulArgs args{.a = a,
                  .b = b,
                  .c = c,
                  .m = m,
                  .n = n,
                  .k = k,
                  .lda = layout == MatMulLayout::kTN ? m : k,
                  .ldb = layout == MatMulLayout::kNT ? k : n,
                  .ldc = n,
                  .layout = layout,
                  .accumulate = state.range(6) != 0,
                  .epilogue = epilogue};
  if (has_bias) args.bias = bias;
  if (has_aux) args.aux = aux;
  CompareWithSgemm(state, num_threads, 2.0 * m * n * k, [&] { backend->MatMul(args); });
}

void MatMulShapes(benchmark::internal::Benchmark* benchmark) {
  struct Linear {
    int64_t out, in;
    Epilogue forward, data_grad;
  };
  constexpr Linear kLinears[] = {{3 * kHidden, kHidden, Epilogue::kBias, Epilogue::kNone},
                                 {kHidden, kHidden, Epilogue::kNone, Epilogue::kNone},
                                 {kFfn, kHidden, Epilogue::kBiasGelu, Epilogue::kNone},
                                 {kHidden, kFfn, Epilogue::kNone, Epilogue::kGeluGrad},
                                 {kVocab, kHidden, Epilogue::kNone, Epilogue::kNone}};
  const auto add = [&](int64_t threads, int64_t m, int64_t n, int64_t k, MatMulLayout layout,
                       Epilogue epilogue, bool accumulate) {
    benchmark->Args({threads, m, n, k, static_cast<int64_t>(layout), static_cast<int64_t>(epilogue),
                     accumulate ? 1 : 0});
  };
  for (const int64_t threads : {1, 2}) {
    for (const Linear& linear : kLinears) {
      add(threads, kTokens, linear.out, linear.in, MatMulLayout::kNT, linear.forward, false);
      add(threads, kTokens, linear.in, linear.out, MatMulLayout::kNN, linear.data_grad, false);
      add(threads, linear.out, linear.in, kTokens, MatMulLayout::kTN, Epilogue::kNone, true);
    }
  }
}
BENCHMARK(MatMul)
    ->ArgNames({"threads", "m", "n", "k", "layout", "epilogue", "accumulate"})
    ->Apply(MatMulShapes)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// Arguments: threads, groups, rows of each on average, n, k, layout. Every second group has half as
// many rows as its neighbour, as tokens do not choose experts evenly.
void GroupedMatMul(benchmark::State& state) {
  const int num_threads = static_cast<int>(state.range(0));
  const int64_t num_groups = state.range(1), rows = num_groups * state.range(2);
  const auto layout = static_cast<MatMulLayout>(state.range(5));
  const bool is_weight_gradient = layout == MatMulLayout::kTN;
  const int64_t n = state.range(3), inner = state.range(4);
  std::vector<int64_t> group_rows(num_groups, state.range(2) * 2 / 3);
  for (int64_t group = 1; group < num_groups; group += 2) {
    group_rows[group] = 2 * state.range(2) - group_rows[group - 1];
  }
  const auto backend = MakeCpuBackend(num_threads);
  const Buffer input(*backend, rows * inner), output(*backend, rows * n);
  const Buffer weights(*backend, num_groups * n * inner);
  GroupedMatMulArgs args{.a = input,
                         .b = weights,
                         .c = output,
                         .group_rows = group_rows.data(),
                         .num_groups = num_groups,
                         .m = rows,
                         .n = n,
                         .k = inner,
                         .group_stride = n * inner,
                         .layout = layout};
  if (is_weight_gradient) {
    args.m = inner;
    args.k = rows;
    args.b = output;
    args.c = weights;
  }
  CompareWithSgemm(state, num_threads, 2.0 * rows * n * inner,
                   [&] { backend->GroupedMatMul(args); });
}
BENCHMARK(GroupedMatMul)
    ->ArgNames({"threads", "groups", "rows", "n", "k", "layout"})
    ->ArgsProduct({{1, 2}, {8}, {32, 128, 512}, {kHidden}, {kFfn}, {0, 1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// Arguments: threads, batch, sequence, probabilities kept (0|1), backward (0|1). Counts the
// causal half of the products: 2 of them forward, 5 backward.
void Attention(benchmark::State& state) {
  const int num_threads = static_cast<int>(state.range(0));
  const int64_t batch = state.range(1), sequence = state.range(2);
  constexpr int64_t kHeads = 12, kHeadDim = 64;
  const auto kind =
      state.range(3) != 0 ? AttentionStats::kProbabilities : AttentionStats::kLogSumExp;
  const int64_t num_stats =
      batch * kHeads * sequence * (kind == AttentionStats::kProbabilities ? sequence : 1);
  const int64_t num_rows = batch * sequence;
  const auto backend = MakeCpuBackend(num_threads);
  const Buffer qkv(*backend, num_rows * 3 * kHidden), dqkv(*backend, num_rows * 3 * kHidden);
  const Buffer out(*backend, num_rows * kHidden), dout(*backend, num_rows * kHidden);
  const Buffer stats(*backend, num_stats);
  const AttentionForwardArgs forward{.q = qkv.At(0),
                                     .k = qkv.At(kHidden),
                                     .v = qkv.At(2 * kHidden),
                                     .out = out,
                                     .stats = stats,
                                     .stats_kind = kind,
                                     .batch = batch,
                                     .sequence = sequence,
                                     .num_heads = kHeads,
                                     .num_kv_heads = kHeads,
                                     .head_dim = kHeadDim,
                                     .qkv_stride = 3 * kHidden,
                                     .out_stride = kHidden,
                                     .scale = 0.125F};
  const AttentionBackwardArgs backward{.dout = dout,
                                       .q = forward.q,
                                       .k = forward.k,
                                       .v = forward.v,
                                       .out = out,
                                       .stats = stats,
                                       .dq = dqkv.At(0),
                                       .dk = dqkv.At(kHidden),
                                       .dv = dqkv.At(2 * kHidden),
                                       .stats_kind = kind,
                                       .batch = batch,
                                       .sequence = sequence,
                                       .num_heads = kHeads,
                                       .num_kv_heads = kHeads,
                                       .head_dim = kHeadDim,
                                       .qkv_stride = 3 * kHidden,
                                       .out_stride = kHidden,
                                       .dqkv_stride = 3 * kHidden,
                                       .scale = 0.125F};
  backend->AttentionForward(forward);
  const double product_flops = 2.0 * batch * kHeads * kHeadDim * (0.5 * sequence * (sequence + 1));
  if (state.range(4) != 0) {
    CompareWithSgemm(state, num_threads, 5 * product_flops,
                     [&] { backend->AttentionBackward(backward); });
  } else {
    CompareWithSgemm(state, num_threads, 2 * product_flops,
                     [&] { backend->AttentionForward(forward); });
  }
}
BENCHMARK(Attention)
    ->ArgNames({"threads", "batch", "sequence", "probabilities", "backward"})
    ->ArgsProduct({{1, 2}, {4}, {64, 256, 1024}, {0, 1}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera::kernels
