// Rows on their way to the experts and back. A row is what belongs to one choice of a token, any
// number of values wide: its hidden state, a gradient, a router weight.
#pragma once

#include "engine/layers/dispatch_plan.h"
#include "engine/layers/layer_context.h"

namespace tessera::engine {

// What one micro-batch's rows do, in host memory; kept for the backward pass.
struct DispatchPlan {
  OutgoingRows outgoing;
  IncomingRows incoming;
};

// What memory rows end in.
struct RowMemory {
  MemoryKind kind = MemoryKind::kWorkspace;
  Lifetime lifetime = Lifetime::kPass;
};
inline constexpr RowMemory kKeptRows = {MemoryKind::kActivations, Lifetime::kStep};

class TokenDispatch {
 public:
  explicit TokenDispatch(const LayerContext& context);

  // Works out the plan of the experts chosen, int32 [local_tokens, experts_per_token] in device
  // memory, for which the host waits; dropless, the ranks tell each other how many rows they send.
  DispatchPlan Plan(kernels::ConstArray chosen) const;

  // The hidden states of this rank's tokens [local_tokens, hidden] as rows in the order of the
  // experts here, [plan.incoming.num_rows(), hidden].
  Buffer Tokens(const DispatchPlan& plan, kernels::ConstArray tokens, RowMemory memory) const;
  // The same of a value for each choice, fp32 [local_tokens, experts_per_token]: [num_rows].
  Buffer Values(const DispatchPlan& plan, kernels::ConstArray values, RowMemory memory) const;
  // The way back: each token the sum of its rows, in the order of its choices. Of rows that
  // expert-tensor ranks share, their sum. `tokens`: [local_tokens, hidden], overwritten.
  void SumTokens(const DispatchPlan& plan, Buffer rows, kernels::Array tokens) const;
  // And of values, each to its choice; 0 where the choice was dropped.
  void ReturnValues(const DispatchPlan& plan, Buffer rows, kernels::Array values) const;

 private:
  std::vector<int32_t> GatherCounts(const std::vector<int32_t>& per_expert) const;
  Buffer Upload(const std::vector<int32_t>& indices) const;
  Buffer Take(int64_t rows, int64_t width, base::DType dtype, RowMemory memory) const;
  Buffer Permute(kernels::ConstArray x, int64_t num_x_rows, const std::vector<int32_t>& source,
                 int64_t width, RowMemory memory) const;
  void Unpermute(kernels::ConstArray x, int64_t num_x_rows, const std::vector<int32_t>& rows,
                 int64_t copies, int64_t width, kernels::Array out) const;
  Buffer Send(const DispatchPlan& plan, kernels::ConstArray x, int64_t num_x_rows,
              const std::vector<int32_t>& source, int64_t width, RowMemory memory) const;
  // The rows that left this rank, in their order.
  Buffer Return(const DispatchPlan& plan, Buffer rows, int64_t width) const;
  Buffer Exchange(const std::vector<int64_t>& sent, const std::vector<int64_t>& received,
                  const Buffer& rows, int64_t width, int64_t num_rows, RowMemory memory) const;

  const LayerContext& context_;
  RoutingShape shape_;
  ExpertMesh mesh_;
};

}  // namespace tessera::engine
