// Mixtures of experts: checks, and reports to the observer.
#include <numeric>

#include "kernels/backend.h"
#include "kernels/op_checks.h"

namespace tessera::kernels {
namespace {

using base::Epilogue;
using base::MatMulLayout;
using base::OpKind;
using base::OpRecord;

void CheckGroups(const OpRecord& record, const int64_t* group_rows, int64_t num_groups,
                 int64_t num_rows) {
  TESSERA_CHECK(group_rows != nullptr && num_groups > 0, "groups of ", base::ToString(record));
  for (int64_t group = 0; group < num_groups; ++group) {
    TESSERA_CHECK(group_rows[group] >= 0, "group ", group, " has ", group_rows[group], " rows");
  }
  const int64_t sum = std::accumulate(group_rows, group_rows + num_groups, int64_t{0});
  TESSERA_CHECK(sum == num_rows, "groups of ", sum, " rows in ", base::ToString(record));
}

void CheckChoice(const OpRecord& record) {
  TESSERA_CHECK(record.dims[0] >= 0 && record.dims[2] > 0 && record.dims[2] <= record.dims[1],
                "rows, experts and choices of ", base::ToString(record));
}

template <typename Args>
void CheckSequences(const Args& args) {
  TESSERA_CHECK(args.first_row >= 0 && args.sequence > 0, "first row ", args.first_row,
                " of sequences of ", args.sequence);
}

// Of arrays that no rows would leave empty.
void CheckPresentOfRows(const OpRecord& record, std::initializer_list<ConstArray> arrays) {
  if (record.dims[0] > 0) CheckPresent(record.kind, arrays);
}

}  // namespace

void Backend::GroupedMatMul(const GroupedMatMulArgs& args) {
  const bool is_weight_gradient = args.layout == MatMulLayout::kTN;
  const OpRecord record{
      OpKind::kGroupedMatMul,
      {args.m, args.n, args.k, static_cast<int64_t>(args.layout), Flag(is_weight_gradient),
       static_cast<int64_t>(args.epilogue), args.num_groups}};
  const int64_t num_rows = is_weight_gradient ? args.k : args.m;
  CheckPositive(record, {args.n, is_weight_gradient ? args.m : args.k});
  CheckGroups(record, args.group_rows, args.num_groups, num_rows);
  TESSERA_CHECK(args.group_stride >= args.n * (is_weight_gradient ? args.m : args.k),
                "group_stride ", args.group_stride, " of ", base::ToString(record));
  const bool has_bias = args.epilogue == Epilogue::kBias;
  TESSERA_CHECK(has_bias || args.epilogue == Epilogue::kNone, "epilogue of ",
                base::ToString(record));
  TESSERA_CHECK(!has_bias || !is_weight_gradient, "bias of ", base::ToString(record));
  TESSERA_CHECK(static_cast<bool>(args.bias) == has_bias, "bias of ", base::ToString(record));
  TESSERA_CHECK(!has_bias || args.bias_stride >= args.n, "bias_stride ", args.bias_stride, " of ",
                base::ToString(record));
  if (num_rows > 0) CheckPresent(record.kind, {args.a, args.b, args.c});
  const ObservedOp op(observer_, record);
  DoGroupedMatMul(args);
}

void Backend::GroupedBiasGrad(const GroupedBiasGradArgs& args) {
  const OpRecord record{OpKind::kBiasGrad, {args.num_rows, args.width}};
  CheckRowsAndWidth(record);
  CheckGroups(record, args.group_rows, args.num_groups, args.num_rows);
  TESSERA_CHECK(args.bias_stride >= args.width, "bias_stride ", args.bias_stride, " of ",
                base::ToString(record));
  CheckPresentOfRows(record, {args.dy, args.dbias});
  const ObservedOp op(observer_, record);
  DoGroupedBiasGrad(args);
}

void Backend::RouterForward(const RouterForwardArgs& args) {
  const OpRecord record{OpKind::kRouterForward, {args.num_rows, args.num_experts, args.num_chosen}};
  CheckChoice(record);
  CheckPresentOfRows(record,
                     {args.logits, args.probabilities, args.log_sum_exp, args.chosen, args.weight});
  const ObservedOp op(observer_, record);
  DoRouterForward(args);
}

void Backend::ExpertCount(const ExpertCountArgs& args) {
  const OpRecord record{OpKind::kExpertCount, {args.num_rows, args.num_experts, args.num_chosen}};
  CheckChoice(record);
  CheckSequences(args);
  TESSERA_CHECK(args.first_row + args.num_rows <= args.num_sequences * args.sequence, "rows ",
                args.first_row, " to ", args.first_row + args.num_rows, " of ", args.num_sequences,
                " sequences of ", args.sequence);
  CheckPresentOfRows(record, {args.chosen});
  CheckPresent(record.kind, {args.counts});
  const ObservedOp op(observer_, record);
  DoExpertCount(args);
}

void Backend::RouterBackward(const RouterBackwardArgs& args) {
  const OpRecord record{OpKind::kRouterBackward,
                        {args.num_rows, args.num_experts, args.num_chosen}};
  CheckChoice(record);
  CheckPresentOfRows(record, {args.probabilities, args.log_sum_exp, args.chosen, args.weight,
                              args.dweight, args.dlogits});
  TESSERA_CHECK(static_cast<bool>(args.counts) == (args.balance_loss_sum != nullptr),
                "counts of experts and their loss");
  if (args.counts) {
    CheckSequences(args);
    TESSERA_CHECK(args.sequence_tokens > 0, "sequence of ", args.sequence_tokens, " tokens");
  }
  const ObservedOp op(observer_, record);
  DoRouterBackward(args);
}

void Backend::WeightedGeluForward(const WeightedGeluForwardArgs& args) {
  const OpRecord record{OpKind::kWeightedGeluForward, {args.num_rows, args.width}};
  CheckRowsAndWidth(record);
  CheckPresentOfRows(record, {args.x, args.row_weight, args.y});
  const ObservedOp op(observer_, record);
  DoWeightedGeluForward(args);
}

void Backend::WeightedGeluBackward(const WeightedGeluBackwardArgs& args) {
  const OpRecord record{OpKind::kWeightedGeluBackward, {args.num_rows, args.width}};
  CheckRowsAndWidth(record);
  CheckPresentOfRows(record, {args.dy, args.x, args.row_weight, args.dx, args.dweight});
  const ObservedOp op(observer_, record);
  DoWeightedGeluBackward(args);
}

void Backend::TokenPermute(const TokenPermuteArgs& args) {
  const OpRecord record{OpKind::kTokenPermute, {args.num_rows, args.width, args.num_tokens}};
  CheckRowsAndWidth(record);
  TESSERA_CHECK(args.num_tokens >= 0, "tokens of ", base::ToString(record));
  CheckPresentOfRows(record, {args.source_row, args.out});
  if (args.num_tokens > 0) CheckPresentOfRows(record, {args.x});
  const ObservedOp op(observer_, record);
  DoTokenPermute(args);
}

void Backend::TokenUnpermute(const TokenUnpermuteArgs& args) {
  const OpRecord record{OpKind::kTokenUnpermute, {args.num_rows, args.width, args.num_tokens}};
  CheckRowsAndWidth(record);
  TESSERA_CHECK(args.num_tokens >= 0 && args.copies > 0, args.copies, " copies of ",
                base::ToString(record));
  if (args.num_tokens > 0) {
    CheckPresent(record.kind, {args.routed_row, args.out});
    CheckPresentOfRows(record, {args.x});
  }
  const ObservedOp op(observer_, record);
  DoTokenUnpermute(args);
}

}  // namespace tessera::kernels
