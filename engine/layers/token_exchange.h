// The borders of a tensor-parallel region. Outside it a rank holds `local_tokens` tokens (all of
// them, or its share under sequence parallelism); inside all `tokens`.
// Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2 (g and g-bar).
#pragma once

#include <memory>

#include "engine/layers/layer_context.h"

namespace tessera::engine {

// All tokens [tokens, hidden] of `local` [local_tokens, hidden]: gathered into `storage` under
// sequence parallelism, `local` itself otherwise.
kernels::ConstArray GatherTokens(const LayerContext& context, kernels::ConstArray local,
                                 Buffer& storage, Lifetime lifetime = Lifetime::kPass);

// The same with the gathering under way while the rank computes.
class TokenGather {
 public:
  // `local` must stay until Finish.
  TokenGather(const LayerContext& context, kernels::ConstArray local, Lifetime lifetime)
      : context_(context), local_(local), lifetime_(lifetime) {}

  // Optional, once.
  void Start();
  // All tokens; empty without sequence parallelism, where `local` has them. Once.
  Buffer Finish();

 private:
  const LayerContext& context_;
  kernels::ConstArray local_;
  Lifetime lifetime_;
  Buffer gathered_;
  std::unique_ptr<CommHandle> under_way_;
};

// A sum over the tensor-parallel ranks, of which this one wants its tokens.
class PartialSum {
 public:
  // `sum`: memory for the result, [local_tokens, hidden].
  PartialSum(const LayerContext& context, Buffer sum);

  // To be filled with this rank's part, [tokens, hidden].
  kernels::Array part() const { return part_ ? part_.array() : sum_.array(); }
  // Optional, once: adds up while the rank computes, which leaves part and sum alone meanwhile.
  void Start();
  // The sum over the ranks. Once.
  Buffer Reduce();

 private:
  const LayerContext& context_;
  Buffer sum_;
  Buffer part_;  // empty where the sum takes its place
  bool is_started_ = false;
  std::unique_ptr<CommHandle> under_way_;  // none where there is one rank
};

}  // namespace tessera::engine
