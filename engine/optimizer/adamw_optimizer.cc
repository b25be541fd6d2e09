#include "engine/optimizer/adamw_optimizer.h"

#include <algorithm>

namespace tessera::engine {

AdamWOptimizer::AdamWOptimizer(const LayerContext& context, const ParameterStore& store)
    : context_(context), store_(store) {
  for (const spec::OwnedRange& range : store.owned()) AppendSegments(range);
  const auto allocate = [&] {
    return context.pool.Allocate(MemoryKind::kOptimizer, base::DType::kFloat32, store.num_owned());
  };
  m_ = allocate();
  v_ = allocate();
  context.backend.Fill(m_.array(), store.num_owned(), 0.0F);
  context.backend.Fill(v_.array(), store.num_owned(), 0.0F);
  if (context.types.has_master_weights) master_ = allocate();
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
    const Segment segment{.offset = begin,
                          .num_elements = end - begin,
                          .state_offset = range.state_offset + begin - range.offset,
                          .weight_decay = parameter.weight_decay,
                          .counts_in_norm = store_.slices()[i].first_replica &&
                                            !parameter.tied_copy && range.is_first_holder};
    if (segments_.size() > first_of_range) {
      Segment& last = segments_.back();
      if (last.weight_decay == segment.weight_decay &&
          last.counts_in_norm == segment.counts_in_norm) {
        last.num_elements = end - last.offset;
        continue;
      }
    }
    segments_.push_back(segment);
  }
}

void AdamWOptimizer::AddSquaredNorm(double* sum) const {
  for (const Segment& segment : segments_) {
    if (!segment.counts_in_norm) continue;
    context_.backend.SumOfSquares(
        {.x = store_.gradients().At(segment.offset), .sum = sum, .n = segment.num_elements});
  }
}

void AdamWOptimizer::Step(const spec::OptimizerSpec& options, double lr, double grad_scale,
                          int64_t step) const {
  for (const Segment& segment : segments_) {
    context_.backend.AdamW(
        {.param = store_.weights().At(segment.offset),
         .master = master().At(segment.state_offset),
         .grad = store_.gradients().At(segment.offset),
         .m = m().At(segment.state_offset),
         .v = v().At(segment.state_offset),
         .n = segment.num_elements,
         .lr = static_cast<float>(lr),
         .beta1 = static_cast<float>(options.adam_beta1),
         .beta2 = static_cast<float>(options.adam_beta2),
         .epsilon = static_cast<float>(options.adam_eps),
         .weight_decay = segment.weight_decay ? static_cast<float>(options.weight_decay) : 0.0F,
         .grad_scale = static_cast<float>(grad_scale),
         .step = step});
  }
}

}  // namespace tessera::engine
