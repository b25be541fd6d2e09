#include "cost_model/spec/kept_tensors.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tessera::spec {
namespace {

constexpr int64_t kMaskBytes = 1;
constexpr int64_t kFloatBytes = 4;

int64_t ElementBytes(const TrainingSpec& training) {
  return base::SizeBytes(TypesOf(training.precision).activation);
}

bool IsGated(const ModelSpec& model) { return model.activation == ActivationKind::kSwiGlu; }

int64_t BytesOf(const std::vector<SavedTensor>& tensors, const std::string& name) {
  for (const SavedTensor& tensor : tensors) {
    if (tensor.name == name) return tensor.num_bytes;
  }
  return 0;
}

// Elements of the attention's scores, where it keeps them.
int64_t ScoreElements(const ParallelSpec& parallel, const LocalShape& shape) {
  if (parallel.attention == AttentionKind::kFlash) return 0;
  return shape.batch * shape.heads * shape.sequence * shape.sequence *
         parallel.context_parallel_size;
}

// The kernel that computes attention keeps these; selective recomputation lets them go.
bool IsAttentionStatistic(const SavedTensor& tensor) {
  return tensor.name.starts_with("attention_stats");
}

bool SoftmaxIsFused(const RuntimeSpec& runtime, const ParallelSpec& parallel,
                    const LocalShape& shape) {
  return FusesSoftmax(runtime, shape.batch * shape.heads,
                      shape.sequence * parallel.context_parallel_size);
}

int64_t Fp32LogitsCopies(const RuntimeSpec& runtime, const LocalShape& shape) {
  const bool is_sharded = shape.tensor_parallel_size > 1;
  return is_sharded && runtime.sharded_fp32_logits_copies > 0 ? runtime.sharded_fp32_logits_copies
                                                              : runtime.fp32_logits_copies;
}

// All of a layer's tensors, nothing recomputed.
std::vector<SavedTensor> AllTensors(const ModelSpec& model, const TrainingSpec& training,
                                    const ParallelSpec& parallel, const LayerForm& form,
                                    const LocalShape& shape, const RuntimeSpec& runtime) {
  ParallelSpec everything = parallel;
  everything.recompute = Recompute::kNone;
  std::vector<SavedTensor> tensors = LayerSavedTensors(model, training, everything, form, shape);
  const int64_t element_bytes = ElementBytes(training);
  const auto add = [&](const char* name, int64_t num_bytes) {
    if (num_bytes > 0) tensors.push_back({name, num_bytes});
  };
  if (runtime.keeps_gathered_inputs && shape.sequence_parallel) {
    for (SavedTensor& tensor : tensors) {
      if (tensor.name.ends_with("norm_output")) tensor.num_bytes *= shape.tensor_parallel_size;
    }
  }
  if (runtime.hidden_dropout) {
    add("attention_dropout_mask", shape.local_tokens * shape.hidden * kMaskBytes);
    add("mlp_dropout_mask", shape.local_tokens * shape.hidden * kMaskBytes);
  }
  const int64_t scores = ScoreElements(parallel, shape);
  // The softmax keeps its fp32 result, the product of probabilities and values their 16-bit copy.
  if (!SoftmaxIsFused(runtime, parallel, shape)) {
    add("attention_stats_fp32", element_bytes < kFloatBytes ? scores * kFloatBytes : 0);
  }
  if (runtime.attention_dropout) {
    add("attention_stats_dropout_mask", scores * kMaskBytes);
    add("attention_stats_dropped", scores * element_bytes);
  }
  // Norms and rotations made of plain operations: the input in fp32; what is rotated, and the
  // result.
  if (!runtime.fused_norm) {
    add("norm_inputs_fp32", 2 * shape.local_tokens * shape.hidden * kFloatBytes);
  }
  if (!runtime.fused_rope && model.position == PositionKind::kRope) {
    add("rotated_queries_and_keys",
        shape.tokens * (shape.heads + shape.kv_heads) * shape.head_dim * element_bytes);
  }
  // A chain of kernels keeps what passes between them: SwiGLU's gate, the root of a squared ReLU.
  if (!runtime.fused_activation) {
    add("mlp_activation_part", BytesOf(tensors, "mlp_activation"));
  }
  return tensors;
}

// Products in order: q, k, v, attention's output, gate and up (or the first of the MLP), down. Of
// every other one from the first the backward pass reads the result, but of the last, which goes
// into a sum alone. Under sequence parallelism the scattered sum after attention stays too. The
// rest comes back in the backward pass. Of latent attention and experts no product counts.
LayerTensors AlternateProducts(const ModelSpec& model, const TrainingSpec& training,
                               const std::vector<SavedTensor>& all, const LocalShape& shape) {
  const int64_t query_bytes = model.mla ? 0 : BytesOf(all, "attention_output");
  const int64_t value_bytes =
      model.mla ? 0 : shape.tokens * shape.kv_heads * shape.value_head_dim * ElementBytes(training);
  const int64_t first_bytes = model.mla ? 0 : BytesOf(all, "mlp_activation");
  LayerTensors tensors;
  tensors.kept = {
      {"queries", query_bytes}, {"values", value_bytes}, {"mlp_first_product", first_bytes}};
  for (const SavedTensor& tensor : all) {
    if (tensor.name == "input" || tensor.name == "attention_output" ||
        IsAttentionStatistic(tensor) || (tensor.name == "mlp_input" && shape.sequence_parallel)) {
      tensors.kept.push_back(tensor);
      continue;
    }
    tensors.restored.push_back(tensor);
    int64_t& num_bytes = tensors.restored.back().num_bytes;
    if (tensor.name == "qkv") num_bytes -= query_bytes + value_bytes;
    if (tensor.name == "mlp_pre_activation") num_bytes -= first_bytes;
  }
  return tensors;
}

}  // namespace

LayerTensors LayerTensorsOf(const ModelSpec& model, const TrainingSpec& training,
                            const ParallelSpec& parallel, const LayerForm& form,
                            const LocalShape& shape, const RuntimeSpec& runtime) {
  std::vector<SavedTensor> all = AllTensors(model, training, parallel, form, shape, runtime);
  LayerTensors tensors;
  switch (parallel.recompute) {
    case Recompute::kNone:
      tensors.kept = std::move(all);
      break;
    case Recompute::kSelective:
      if (runtime.keeps_alternate_products) {
        return AlternateProducts(model, training, all, shape);
      }
      for (SavedTensor& tensor : all) {
        (IsAttentionStatistic(tensor) ? tensors.restored : tensors.kept)
            .push_back(std::move(tensor));
      }
      break;
    case Recompute::kFull:
      tensors.kept = {all.front()};
      tensors.restored = {all.begin() + 1, all.end()};
      break;
  }
  return tensors;
}

std::vector<SavedTensor> HeadKeptTensors(const ModelSpec& model, const TrainingSpec& training,
                                         const ParallelSpec& parallel, const LocalShape& shape,
                                         const RuntimeSpec& runtime) {
  std::vector<SavedTensor> tensors = HeadSavedTensors(model, training, parallel, shape);
  const bool is_fp32 = !runtime.fused_cross_entropy || runtime.fp32_logits_gradient;
  const int64_t logit_bytes = is_fp32 ? kFloatBytes : ElementBytes(training);
  const bool keeps_gathered = runtime.keeps_gathered_inputs && shape.sequence_parallel;
  for (SavedTensor& tensor : tensors) {
    if (tensor.name.ends_with("logits_gradient")) {
      tensor.num_bytes = shape.tokens * shape.vocab * logit_bytes;
    } else if (keeps_gathered && tensor.name == "norm_output") {
      tensor.num_bytes *= shape.tensor_parallel_size;
    }
  }
  return tensors;
}

int64_t LayerWorkingBytes(const ModelSpec& model, const TrainingSpec& training,
                          const ParallelSpec& parallel, const LayerForm& form,
                          const LocalShape& shape, const RuntimeSpec& runtime) {
  if (!runtime.autograd) return 0;
  const int64_t gradient = shape.local_tokens * shape.hidden;
  const int64_t element_bytes = ElementBytes(training);
  // Gradients before and after the softmax, in fp32 where it runs there.
  const bool is_fused = SoftmaxIsFused(runtime, parallel, shape);
  const int64_t softmax =
      (is_fused ? 2 : 2 * kFloatBytes / element_bytes) * ScoreElements(parallel, shape);
  const bool is_gated = IsGated(model);
  if (form.has_experts) {
    const int64_t widths = shape.hidden + shape.expert_ffn;
    const int64_t experts =
        shape.expert_rows * (shape.hidden + shape.expert_ffn * (is_gated ? 3 : 2));
    return (std::max(3 * shape.expert_rows * widths + 2 * gradient, softmax - experts) + gradient) *
           element_bytes;
  }
  const int64_t activation = shape.tokens * shape.ffn;
  const int64_t weights = runtime.fused_gradient_accumulation ? 0 : shape.ffn * shape.hidden;
  const int64_t mlp = activation * (is_gated ? 3 : 2) + 2 * gradient;
  const int64_t widest = std::max(
      {activation * (is_gated ? 2 : 1), activation + weights,
       shape.tokens * shape.hidden - activation + weights * (is_gated ? 2 : 1), softmax - mlp});
  return (gradient + widest) * element_bytes;
}

int64_t HeadPeakBytes(const ModelSpec& model, const TrainingSpec& training,
                      const ParallelSpec& parallel, const LocalShape& shape,
                      const RuntimeSpec& runtime) {
  const int64_t kept_bytes = SumBytes(HeadKeptTensors(model, training, parallel, shape, runtime));
  if (!runtime.autograd) return kept_bytes;
  const int64_t element_bytes = ElementBytes(training);
  const int64_t logits = shape.tokens * shape.vocab;
  const int64_t inputs_bytes =
      kept_bytes -
      BytesOf(HeadKeptTensors(model, training, parallel, shape, runtime), "logits_gradient");
  const int64_t gradient_bytes = runtime.fp32_logits_gradient ? kFloatBytes : element_bytes;
  const int64_t loss_bytes =
      logits * (runtime.fused_cross_entropy
                    ? gradient_bytes
                    : element_bytes + kFloatBytes * Fp32LogitsCopies(runtime, shape));
  // Gradients of the weights (a placeholder of theirs), of the norm's output; under sequence
  // parallelism the gathered input and the scattered gradient; on a pipeline the buffer in which
  // the next micro-batch arrives.
  const int64_t own = shape.local_tokens * shape.hidden;
  const int64_t gathered = shape.tokens * shape.hidden;
  const bool has_weight_gradient =
      runtime.weight_gradient_placeholders || !runtime.fused_gradient_accumulation;
  const int64_t backward_elements = logits +
                                    (has_weight_gradient ? shape.vocab * shape.hidden : 0) +
                                    gathered + (shape.sequence_parallel ? gathered + own : 0) +
                                    (parallel.pipeline_parallel_size > 1 ? own : 0);
  // A multi-token layer's backward pass, while one of the losses still waits for its own.
  const int64_t layer_bytes =
      model.num_multi_token_layers > 0
          ? LayerWorkingBytes(model, training, parallel, MultiTokenLayerForm(model), shape, runtime)
          : 0;
  return inputs_bytes + std::max({loss_bytes, backward_elements * element_bytes, layer_bytes});
}

LayerBytes LayerBytesOf(const ModelSpec& model, const TrainingSpec& training,
                        const ParallelSpec& parallel, const LayerForm& form,
                        const LocalShape& shape, const RuntimeSpec& runtime) {
  const LayerTensors layer = LayerTensorsOf(model, training, parallel, form, shape, runtime);
  return {
      .kept_bytes = SumBytes(layer.kept),
      .running_bytes = SumBytes(layer.restored) +
                       LayerWorkingBytes(model, training, parallel, form, shape, runtime),
      .weight_operand_bytes = parallel.schedule == ScheduleKind::kZeroBubbleH1
                                  ? LayerWeightOperandBytes(model, training, parallel, form, shape)
                                  : 0};
}

StageActivationBytes KeptBytesOf(const ModelSpec& model, const TrainingSpec& training,
                                 const ParallelSpec& parallel, const VirtualStage& stage,
                                 const RuntimeSpec& runtime) {
  const LocalShape shape = MakeLocalShape(model, training, parallel);
  std::vector<LayerRun> runs;
  const auto add_layers = [&](const VirtualStage& layers, const ParallelSpec& alike) {
    const PerForm<int> counts = CountForms(model, layers);
    PerForm<LayerBytes> by_form;
    for (size_t i = 0; i < kNumLayerForms; ++i) {
      if (counts[i] == 0) continue;
      by_form[i] = LayerBytesOf(model, training, alike, FormAt(i), shape, runtime);
    }
    AppendLayerRuns(counts, by_form, runs);
  };
  VirtualStage first_layers = stage;
  first_layers.num_layers = RecomputedLayers(parallel, stage);
  add_layers(first_layers, parallel);
  VirtualStage other_layers = stage;
  other_layers.first_layer += first_layers.num_layers;
  other_layers.num_layers -= first_layers.num_layers;
  if (other_layers.num_layers > 0) add_layers(other_layers, KeepingLayers(parallel));
  StageEndBytes ends;
  if (stage.has_embedding) ends.own_bytes += SumBytes(EmbeddingSavedTensors(shape));
  ends.own_bytes += SumBytes(DocumentSavedTensors(model, shape, stage));
  if (runtime.keeps_stage_outputs && !stage.has_head) {
    ends.own_bytes += PipelineTransferElements(shape) * ElementBytes(training);
  }
  if (stage.has_head) {
    ends.head_kept_bytes = SumBytes(HeadKeptTensors(model, training, parallel, shape, runtime));
    ends.head_peak_bytes = HeadPeakBytes(model, training, parallel, shape, runtime);
  }
  return HoldLayers(runs, ends);
}

}  // namespace tessera::spec
