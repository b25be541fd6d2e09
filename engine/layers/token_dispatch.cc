#include "engine/layers/token_dispatch.h"

#include <algorithm>
#include <utility>

namespace tessera::engine {
namespace {

using base::DType;

std::vector<int64_t> Scaled(std::vector<int64_t> rows, int64_t width) {
  for (int64_t& count : rows) count *= width;
  return rows;
}

}  // namespace

TokenDispatch::TokenDispatch(const LayerContext& context)
    : context_(context),
      shape_{.num_tokens = context.shape.local_tokens,
             .num_experts = context.model.moe->num_experts,
             .experts_per_token = context.model.moe->experts_per_token,
             .capacity = context.shape.expert_capacity},
      mesh_{.expert_size = context.groups.expert->size(),
            .expert_rank = context.groups.expert->rank(),
            .tensor_size = context.groups.expert_tensor->size(),
            .tensor_rank = context.groups.expert_tensor->rank()} {}

DispatchPlan TokenDispatch::Plan(kernels::ConstArray chosen) const {
  std::vector<int32_t> experts(static_cast<size_t>(shape_.num_tokens * shape_.experts_per_token));
  context_.backend.CopyToHost(experts.data(), chosen.data, experts.size() * sizeof(int32_t));
  DispatchPlan plan{.outgoing = RouteRows(shape_, experts)};
  plan.incoming = ArriveRows(mesh_, shape_.num_experts, GatherCounts(plan.outgoing.per_expert));
  return plan;
}

// Of all ranks: [tensor_size, expert_size, num_experts].
std::vector<int32_t> TokenDispatch::GatherCounts(const std::vector<int32_t>& per_expert) const {
  const int64_t num_ranks = static_cast<int64_t>(mesh_.tensor_size) * mesh_.expert_size;
  std::vector<int32_t> counts;
  if (shape_.capacity > 0 || num_ranks == 1) {
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      counts.insert(counts.end(), per_expert.begin(), per_expert.end());
    }
    return counts;
  }
  Buffer gathered = Upload(per_expert);
  int64_t count = shape_.num_experts;
  for (Communicator* group : {context_.groups.expert.get(), context_.groups.expert_tensor.get()}) {
    if (group->size() == 1) continue;
    Buffer all = Take(group->size(), count, DType::kInt32, RowMemory{});
    context_.expert_comm.Run(
        [&] { group->AllGather(gathered.data(), all.data(), count, DType::kInt32); });
    gathered = std::move(all);
    count *= group->size();
  }
  counts.resize(static_cast<size_t>(count));
  context_.backend.CopyToHost(counts.data(), gathered.data(), counts.size() * sizeof(int32_t));
  return counts;
}

Buffer TokenDispatch::Upload(const std::vector<int32_t>& indices) const {
  Buffer buffer = Take(static_cast<int64_t>(indices.size()), 1, DType::kInt32, RowMemory{});
  context_.backend.CopyToDevice(buffer.data(), indices.data(), indices.size() * sizeof(int32_t));
  return buffer;
}

Buffer TokenDispatch::Take(int64_t rows, int64_t width, DType dtype, RowMemory memory) const {
  // Of no rows one value, so that there is a type and an address.
  return context_.pool.Allocate(memory.kind, dtype, std::max<int64_t>(1, rows * width),
                                memory.lifetime);
}

Buffer TokenDispatch::Permute(kernels::ConstArray x, int64_t num_x_rows,
                              const std::vector<int32_t>& source, int64_t width,
                              RowMemory memory) const {
  const auto num_rows = static_cast<int64_t>(source.size());
  Buffer out = Take(num_rows, width, x.dtype, memory);
  if (num_rows == 0) return out;
  const Buffer indices = Upload(source);
  context_.backend.TokenPermute({.x = x,
                                 .source_row = indices.array(),
                                 .out = out.array(),
                                 .num_rows = num_rows,
                                 .width = width,
                                 .num_tokens = num_x_rows});
  return out;
}

void TokenDispatch::Unpermute(kernels::ConstArray x, int64_t num_x_rows,
                              const std::vector<int32_t>& rows, int64_t copies, int64_t width,
                              kernels::Array out) const {
  if (rows.empty()) return;
  const Buffer indices = Upload(rows);
  context_.backend.TokenUnpermute({.x = x,
                                   .routed_row = indices.array(),
                                   .out = out,
                                   .num_rows = num_x_rows,
                                   .width = width,
                                   .num_tokens = static_cast<int64_t>(rows.size()) / copies,
                                   .copies = copies});
}

Buffer TokenDispatch::Exchange(const std::vector<int64_t>& sent,
                               const std::vector<int64_t>& received, const Buffer& rows,
                               int64_t width, int64_t num_rows, RowMemory memory) const {
  Buffer out = Take(num_rows, width, rows.dtype(), memory);
  context_.expert_comm.Run([&] {
    context_.groups.expert->AllToAllV(rows.data(), Scaled(sent, width), out.data(),
                                      Scaled(received, width), rows.dtype(),
                                      shape_.experts_per_token);
  });
  return out;
}

// Each step's rows are the next one's input; the last one's are of `memory`.
Buffer TokenDispatch::Send(const DispatchPlan& plan, kernels::ConstArray x, int64_t num_x_rows,
                           const std::vector<int32_t>& source, int64_t width,
                           RowMemory memory) const {
  const IncomingRows& incoming = plan.incoming;
  const RowMemory unordered = incoming.reorders ? RowMemory{} : memory;
  const RowMemory ungathered = mesh_.tensor_size > 1 ? RowMemory{} : unordered;
  const RowMemory unsent = mesh_.expert_size > 1 ? RowMemory{} : ungathered;
  Buffer rows = Permute(x, num_x_rows, source, width, unsent);
  // A gathered block is as long as the longest one.
  if (mesh_.expert_size > 1) {
    rows = Exchange(incoming.sent, incoming.received, rows, width, incoming.block_rows, ungathered);
  }
  if (mesh_.tensor_size > 1) {
    TESSERA_CHECK(mesh_.expert_size > 1 || incoming.num_received == incoming.block_rows, "rows of ",
                  "this rank alone: ", incoming.num_received, " of ", incoming.block_rows);
    Buffer gathered = Take(incoming.num_arrivals(mesh_), width, rows.dtype(), unordered);
    context_.expert_comm.Run([&] {
      context_.groups.expert_tensor->AllGather(rows.data(), gathered.data(),
                                               incoming.block_rows * width, rows.dtype());
    });
    rows = std::move(gathered);
  }
  if (!incoming.reorders) return rows;
  return Permute(rows.array(), incoming.num_arrivals(mesh_), incoming.arrival, width, memory);
}

Buffer TokenDispatch::Return(const DispatchPlan& plan, Buffer rows, int64_t width) const {
  const IncomingRows& incoming = plan.incoming;
  if (incoming.reorders) {
    Buffer arrivals = Take(incoming.num_arrivals(mesh_), width, rows.dtype(), RowMemory{});
    Unpermute(rows.array(), incoming.num_rows(), incoming.position, 1, width, arrivals.array());
    rows = std::move(arrivals);
  }
  if (mesh_.tensor_size > 1) {
    Buffer own = Take(incoming.block_rows, width, rows.dtype(), RowMemory{});
    context_.expert_comm.Run([&] {
      context_.groups.expert_tensor->ReduceScatter(
          rows.data(), own.data(), incoming.block_rows * width, rows.dtype(), base::ReduceOp::kSum);
    });
    rows = std::move(own);
  }
  if (mesh_.expert_size == 1) return rows;
  return Exchange(incoming.received, incoming.sent, rows, width, plan.outgoing.num_rows(),
                  RowMemory{});
}

Buffer TokenDispatch::Tokens(const DispatchPlan& plan, kernels::ConstArray tokens,
                             RowMemory memory) const {
  return Send(plan, tokens, shape_.num_tokens, plan.outgoing.token, context_.shape.hidden, memory);
}

Buffer TokenDispatch::Values(const DispatchPlan& plan, kernels::ConstArray values,
                             RowMemory memory) const {
  return Send(plan, values, shape_.num_tokens * shape_.experts_per_token, plan.outgoing.choice, 1,
              memory);
}

void TokenDispatch::SumTokens(const DispatchPlan& plan, Buffer rows, kernels::Array tokens) const {
  const Buffer own = Return(plan, std::move(rows), context_.shape.hidden);
  Unpermute(own.array(), plan.outgoing.num_rows(), plan.outgoing.row, shape_.experts_per_token,
            context_.shape.hidden, tokens);
}

void TokenDispatch::ReturnValues(const DispatchPlan& plan, Buffer rows,
                                 kernels::Array values) const {
  const Buffer own = Return(plan, std::move(rows), 1);
  Unpermute(own.array(), plan.outgoing.num_rows(), plan.outgoing.row, 1, 1, values);
}

}  // namespace tessera::engine
