#include "engine/optimizer/adamw_optimizer.h"

#include <algorithm>

namespace tessera::engine {

AdamWOptimizer::AdamWOptimizer(const LayerContext& context, const ParameterStore& store,
                               const Options& options)
    : context_(context), store_(store), options_(options), state_(context, store.num_owned()) {
  for (const spec::OwnedRange& range : store.owned()) AppendSegments(range);
  if (state_.is_on_host()) host_ = kernels::MakeCpuBackend(options.host_threads);
}

// Cuts a range at parameter borders and joins what is treated alike. Gaps between parameters hold
// zeros in weights and gradients and stay so.
void AdamWOptimizer::AppendSegments(const spec::OwnedRange& range) {
  const int64_t range_end = range.offset + range.num_elements;
  const size_t first_of_range = segments_.size();
  for (size_t i = 0; i < store_.parameters().size(); ++i) {
    const spec::FlatParameter& flat = store_.layout().parameters[i];
    const int64_t begin = std::max(range.offset, flat.offset);
    const int64_t end = std::min(range_end, flat.offset + flat.num_elements);
    if (begin >= end) continue;
    const spec::ParameterSpec& parameter = store_.parameters()[i];
    const Segment segment{.weight = store_.OwnWeights(range, begin - range.offset),
                          .gradient = store_.OwnGradients(range, begin - range.offset),
                          .end = end,
                          .num_elements = end - begin,
                          .state_offset = range.state_offset + begin - range.offset,
                          .weight_decay = parameter.weight_decay && (options_.decay_embeddings ||
                                                                     !spec::IsEmbedding(parameter)),
                          .counts_in_norm = store_.slices()[i].first_replica &&
                                            !parameter.tied_copy && range.is_first_holder};
    if (segments_.size() > first_of_range) {
      Segment& last = segments_.back();
      if (last.weight_decay == segment.weight_decay &&
          last.counts_in_norm == segment.counts_in_norm) {
        last.num_elements += end - last.end;
        last.end = end;
        continue;
      }
    }
    segments_.push_back(segment);
  }
}

void AdamWOptimizer::AddSquaredNorm(double* sum) const {
  for (const Segment& segment : segments_) {
    if (!segment.counts_in_norm) continue;
    context_.backend.SumOfSquares({.x = segment.gradient, .sum = sum, .n = segment.num_elements});
  }
}

void AdamWOptimizer::Step(const spec::OptimizerSpec& optimizer, const Update& update) const {
  for (const Segment& segment : segments_) {
    const kernels::AdamWArgs args = {
        .param = segment.weight,
        .master = state_.master().At(segment.state_offset),
        .grad = segment.gradient,
        .m = state_.m().At(segment.state_offset),
        .v = state_.v().At(segment.state_offset),
        .n = segment.num_elements,
        .lr = static_cast<float>(update.lr),
        .beta1 = static_cast<float>(optimizer.adam_beta1),
        .beta2 = static_cast<float>(optimizer.adam_beta2),
        .epsilon = static_cast<float>(optimizer.adam_eps),
        .weight_decay = segment.weight_decay ? static_cast<float>(update.weight_decay) : 0.0F,
        .grad_scale = static_cast<float>(update.grad_scale),
        .step = update.step};
    if (state_.is_on_host()) {
      StepOnHost(segment, args);
    } else {
      context_.backend.AdamW(args);
    }
  }
}

// Piece by piece. In fp32 the master weights are the weights.
void AdamWOptimizer::StepOnHost(const Segment& segment, kernels::AdamWArgs args) const {
  const int64_t most = std::min(kPieceElements, segment.num_elements);
  const auto weight_bytes = static_cast<size_t>(base::SizeBytes(segment.weight.dtype));
  std::vector<float> gradients(static_cast<size_t>(most));
  std::vector<std::byte> rounded(static_cast<size_t>(most) * weight_bytes);
  const kernels::Array master = args.master, m = args.m, v = args.v;
  for (int64_t begin = 0; begin < segment.num_elements; begin += kPieceElements) {
    args.n = std::min(kPieceElements, segment.num_elements - begin);
    const auto count = static_cast<size_t>(args.n);
    context_.backend.CopyToHost(gradients.data(), segment.gradient.At(begin).data,
                                count * sizeof(float));
    args.grad = kernels::Array{gradients.data(), base::DType::kFloat32};
    args.m = m.At(begin);
    args.v = v.At(begin);
    if (segment.weight.dtype == base::DType::kFloat32) {
      args.param = master.At(begin);
      args.master = {};
    } else {
      args.param = {rounded.data(), segment.weight.dtype};
      args.master = master.At(begin);
    }
    host_->AdamW(args);
    context_.backend.CopyToDevice(segment.weight.At(begin).data, args.param.data,
                                  count * weight_bytes);
  }
}

}  // namespace tessera::engine
