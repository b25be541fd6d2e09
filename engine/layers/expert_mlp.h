// The experts held here, each an MLP over the rows that were routed to it: one grouped product
// instead of one for each. A row is weighted by its router probability between the two products.
#pragma once

#include <span>

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

// What a micro-batch keeps of its rows, in the order of the experts.
struct ExpertTensors {
  Buffer rows;            // [rows, hidden]: the tokens that came
  Buffer weights;         // fp32 [rows]: their router weights
  Buffer pre_activation;  // [rows, ffn], or [rows, 2 * ffn]: gate, then up
  Buffer activation;      // [rows, ffn], weighted
};

// The matrices of all experts here: `stride` elements from one to the next.
struct ExpertMatrices {
  Parameter first;
  int64_t stride = 0;
};

class ExpertMlp {
 public:
  ExpertMlp(const LayerContext& context, const ParameterStore& store, int layer);

  // From the rows to the input of the second product. `expert_rows`: [experts here].
  void Up(std::span<const int64_t> expert_rows, ExpertTensors& tensors) const;
  // The second product [rows, hidden]: of expert-tensor ranks a part of the sum.
  Buffer Down(std::span<const int64_t> expert_rows, const ExpertTensors& tensors) const;

  struct Gradients {
    Buffer rows;     // [rows, hidden], a part of the sum
    Buffer weights;  // fp32 [rows], a part of the sum
  };
  // `dy`: gradient of the second product's result, [rows, hidden].
  Gradients Backward(std::span<const int64_t> expert_rows, ExpertTensors& tensors, Buffer dy) const;

 private:
  struct Product {
    int64_t out = 0;
    int64_t in = 0;
  };
  void Forward(std::span<const int64_t> expert_rows, const Product& shape, kernels::ConstArray x,
               const ExpertMatrices& weights, kernels::Array y) const;
  void DataGradient(std::span<const int64_t> expert_rows, const Product& shape,
                    kernels::ConstArray dy, const ExpertMatrices& weights, kernels::Array dx) const;
  // In a pass that puts these products off the buffers of dy and x move there.
  void WeightGradient(std::span<const int64_t> expert_rows, const Product& shape, Buffer& dy,
                      Buffer& x, const ExpertMatrices& weights) const;
  // Turns the activation's gradient into that of what it was made of, and of the weights.
  Buffer ActivationBackward(const ExpertTensors& tensors, Buffer dactivation, int64_t num_rows,
                            kernels::Array dweights) const;
  bool is_gated() const { return context_.model.activation == spec::ActivationKind::kSwiGlu; }
  Product up() const { return {is_gated() ? 2 * ffn_ : ffn_, context_.shape.hidden}; }
  Product down() const { return {context_.shape.hidden, ffn_}; }

  const LayerContext& context_;
  int64_t ffn_;
  ExpertMatrices first_;
  ExpertMatrices down_;
};

}  // namespace tessera::engine
