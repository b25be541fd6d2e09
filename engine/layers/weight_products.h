// The products that give the gradients of a layer's weight matrices, put off by a backward pass in
// two parts (Qi et al. 2023, arXiv:2401.10241) together with the operands that they read.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "engine/tensor/memory_pool.h"

namespace tessera::engine {

class WeightProducts {
 public:
  // `product` reads the operands kept here, and adds to a gradient.
  void Add(std::function<void()> product) { products_.push_back(std::move(product)); }
  void Keep(Buffer operand) { operands_.push_back(std::move(operand)); }

  // From here on the operands count as what is held for a later pass. To be called once the layer
  // has let go of everything else.
  void HoldOperands() {
    for (Buffer& operand : operands_) operand.Retag(MemoryKind::kActivations);
  }

  // In the order in which they were added, which is that of a plain backward pass: the gradients
  // are the same to the bit. Lets go of the operands.
  void Run() {
    for (const auto& product : products_) product();
    products_.clear();
    operands_.clear();
  }

 private:
  std::vector<std::function<void()>> products_;
  std::vector<Buffer> operands_;
};

// Where a layer's backward pass puts these products: null, and they run in the pass. Changes from
// pass to pass.
struct BackwardPart {
  WeightProducts* put_off = nullptr;
};

}  // namespace tessera::engine
