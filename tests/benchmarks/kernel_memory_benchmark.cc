// The operations that are bound by memory, as a share of the triad's bandwidth.
#include "tests/benchmarks/kernel_peaks.h"

namespace tessera::kernels {
namespace {

// One of the operations that are bound by memory, over `state.range(0)` threads. `make` returns
// the operation to time, given the backend; `bytes` is what it has to move.
template <typename Run>
void MemoryBound(benchmark::State& state, double bytes, const Run& run) {
  const int num_threads = static_cast<int>(state.range(0));
  const auto backend = MakeCpuBackend(num_threads);
  run(*backend,
      [&](const auto& operation) { CompareWithTriad(state, num_threads, bytes, operation); });
}

void LayerNormForward(benchmark::State& state) {
  MemoryBound(state, 8.0 * kTokens * kHidden, [](Backend& backend, const auto& time) {
    const Buffer x(backend, kTokens * kHidden), y(backend, kTokens * kHidden);
    const Buffer gamma(backend, kHidden), beta(backend, kHidden);
    const Buffer mean(backend, kTokens), rstd(backend, kTokens);
    time([&] {
      backend.LayerNormForward({.x = x,
                                .gamma = gamma,
                                .beta = beta,
                                .y = y,
                                .mean = mean,
                                .rstd = rstd,
                                .num_rows = kTokens,
                                .width = kHidden,
                                .epsilon = 1e-5F});
    });
  });
}

void LayerNormBackward(benchmark::State& state) {
  MemoryBound(state, 16.0 * kTokens * kHidden, [](Backend& backend, const auto& time) {
    const Buffer dy(backend, kTokens * kHidden), x(backend, kTokens * kHidden);
    const Buffer residual(backend, kTokens * kHidden), dx(backend, kTokens * kHidden);
    const Buffer gamma(backend, kHidden), dgamma(backend, kHidden), dbeta(backend, kHidden);
    const Buffer mean(backend, kTokens), rstd(backend, kTokens);
    time([&] {
      backend.LayerNormBackward({.dy = dy,
                                 .x = x,
                                 .gamma = gamma,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .residual_grad = residual,
                                 .dx = dx,
                                 .dgamma = dgamma,
                                 .dbeta = dbeta,
                                 .num_rows = kTokens,
                                 .width = kHidden});
    });
  });
}

void ResidualAdd(benchmark::State& state) {
  MemoryBound(state, 12.0 * kTokens * kHidden, [](Backend& backend, const auto& time) {
    const Buffer x(backend, kTokens * kHidden), residual(backend, kTokens * kHidden);
    const Buffer y(backend, kTokens * kHidden), bias(backend, kHidden);
    time([&] {
      backend.ResidualAdd({.x = x,
                           .residual = residual,
                           .bias = bias,
                           .y = y,
                           .num_rows = kTokens,
                           .width = kHidden});
    });
  });
}

void BiasGrad(benchmark::State& state) {
  MemoryBound(state, 4.0 * kTokens * kFfn, [](Backend& backend, const auto& time) {
    const Buffer dy(backend, kTokens * kFfn), dbias(backend, kFfn);
    time([&] {
      backend.BiasGrad(
          {.dy = dy, .dbias = dbias, .num_rows = kTokens, .width = kFfn, .stride = kFfn});
    });
  });
}

void SwiGluForward(benchmark::State& state) {
  MemoryBound(state, 12.0 * kTokens * kFfn, [](Backend& backend, const auto& time) {
    const Buffer gate_up(backend, kTokens * 2 * kFfn), y(backend, kTokens * kFfn);
    time([&] {
      backend.SwiGluForward({.gate_up = gate_up, .y = y, .num_rows = kTokens, .width = kFfn});
    });
  });
}

void SwiGluBackward(benchmark::State& state) {
  MemoryBound(state, 20.0 * kTokens * kFfn, [](Backend& backend, const auto& time) {
    const Buffer gate_up(backend, kTokens * 2 * kFfn), dgate_up(backend, kTokens * 2 * kFfn);
    const Buffer dy(backend, kTokens * kFfn);
    time([&] {
      backend.SwiGluBackward(
          {.dy = dy, .gate_up = gate_up, .dgate_up = dgate_up, .num_rows = kTokens, .width = kFfn});
    });
  });
}

void Rope(benchmark::State& state) {
  constexpr int64_t kHeads = 24, kHeadDim = 64, kStride = 3 * kHidden;
  MemoryBound(state, 8.0 * kTokens * kHeads * kHeadDim, [](Backend& backend, const auto& time) {
    const Buffer qk(backend, kTokens * kStride);
    const std::vector<double> frequency(kHeadDim / 2, 0.1);
    time([&] {
      backend.Rope({.qk = qk,
                    .inverse_frequency = frequency.data(),
                    .num_rows = kTokens,
                    .sequence = kTokens,
                    .num_heads = kHeads,
                    .head_dim = kHeadDim,
                    .stride = kStride});
    });
  });
}

// The three passes over the logits: two read them, one also writes.
void CrossEntropy(benchmark::State& state) {
  const bool is_grad = state.range(1) == 2;
  MemoryBound(
      state, (is_grad ? 8.0 : 4.0) * kTokens * kVocab, [&](Backend& backend, const auto& time) {
        const Buffer logits(backend, kTokens * kVocab), max(backend, kTokens);
        const Buffer sum_exp(backend, kTokens), target(backend, kTokens), loss(backend, kTokens);
        const std::vector<int32_t> labels(kTokens, 3);
        time([&] {
          if (state.range(1) == 0) {
            backend.CrossEntropyMax({.logits = logits,
                                     .max = max,
                                     .num_rows = kTokens,
                                     .num_columns = kVocab,
                                     .num_valid = kVocab - 47});
          } else if (state.range(1) == 1) {
            backend.CrossEntropySumExp({.logits = logits,
                                        .labels = labels.data(),
                                        .max = max,
                                        .sum_exp = sum_exp,
                                        .target_logit = target,
                                        .num_rows = kTokens,
                                        .num_columns = kVocab,
                                        .num_valid = kVocab - 47});
          } else {
            backend.CrossEntropyGrad({.logits = logits,
                                      .labels = labels.data(),
                                      .max = max,
                                      .sum_exp = sum_exp,
                                      .target_logit = target,
                                      .loss = loss,
                                      .num_rows = kTokens,
                                      .num_columns = kVocab,
                                      .num_valid = kVocab - 47,
                                      .grad_scale = 1e-3F});
          }
        });
      });
}

// Logits read, probabilities written; backward probabilities and counts read, gradients written.
void Router(benchmark::State& state) {
  constexpr int64_t kRows = 16 * kTokens, kExperts = 64, kChosen = 6;
  const bool is_backward = state.range(1) != 0;
  MemoryBound(state, 8.0 * kRows * kExperts, [&](Backend& backend, const auto& time) {
    const Buffer logits(backend, kRows * kExperts), probabilities(backend, kRows * kExperts);
    const Buffer log_sum_exp(backend, kRows), weight(backend, kRows * kChosen);
    const Buffer dweight(backend, kRows * kChosen), counts(backend, kExperts);
    std::vector<int32_t> chosen(kRows * kChosen);
    double balance = 0, z = 0;
    const auto forward = [&] {
      backend.RouterForward({.logits = logits,
                             .probabilities = probabilities,
                             .log_sum_exp = log_sum_exp,
                             .chosen = chosen.data(),
                             .weight = weight,
                             .num_rows = kRows,
                             .num_experts = kExperts,
                             .num_chosen = kChosen});
    };
    forward();
    const auto backward = [&] {
      backend.RouterBackward({.probabilities = probabilities,
                              .log_sum_exp = log_sum_exp,
                              .chosen = chosen.data(),
                              .weight = weight,
                              .dweight = dweight,
                              .counts = counts,
                              .dlogits = logits,
                              .balance_loss_sum = &balance,
                              .z_loss_sum = &z,
                              .num_rows = kRows,
                              .num_experts = kExperts,
                              .num_chosen = kChosen,
                              .sequence = kRows,
                              .sequence_tokens = kRows});
    };
    time([&] { is_backward ? backward() : forward(); });
  });
}

// All parameters of GPT-2 124M.
constexpr int64_t kNumParameters = 124'439'808;

void AdamW(benchmark::State& state) {
  MemoryBound(state, 28.0 * kNumParameters, [](Backend& backend, const auto& time) {
    const Buffer param(backend, kNumParameters), grad(backend, kNumParameters);
    const Buffer m(backend, kNumParameters), v(backend, kNumParameters);
    backend.Fill(v, kNumParameters, 1.0F);
    time([&] {
      backend.AdamW({.param = param,
                     .grad = grad,
                     .m = m,
                     .v = v,
                     .n = kNumParameters,
                     .lr = 1e-4F,
                     .beta1 = 0.9F,
                     .beta2 = 0.95F,
                     .epsilon = 1e-8F,
                     .weight_decay = 0.1F});
    });
  });
}

void SumOfSquares(benchmark::State& state) {
  MemoryBound(state, 4.0 * kNumParameters, [](Backend& backend, const auto& time) {
    const Buffer x(backend, kNumParameters);
    double sum = 0;
    time([&] { backend.SumOfSquares({.x = x, .sum = &sum, .n = kNumParameters}); });
  });
}

BENCHMARK(LayerNormForward)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(LayerNormBackward)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(ResidualAdd)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BiasGrad)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(SwiGluForward)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(SwiGluBackward)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Rope)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Router)
    ->ArgNames({"threads", "backward"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(CrossEntropy)
    ->ArgNames({"threads", "pass"})
    ->ArgsProduct({{1, 2}, {0, 1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(AdamW)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);
BENCHMARK(SumOfSquares)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera::kernels
