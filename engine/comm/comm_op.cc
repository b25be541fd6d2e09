#include "engine/comm/comm_op.h"

#include "cost_model/base/check.h"

namespace tessera::engine {

std::string TitleOf(const CommOp& op) {
  switch (op.kind) {
    case CommOp::Kind::kCollective:
      return base::Concat(ToString(op.header.kind), " #", op.number);
    case CommOp::Kind::kSend:
      return base::Concat("send #", op.number, " to rank ", op.peer, ", tag ", op.tag);
    case CommOp::Kind::kReceive:
      return base::Concat("receive #", op.number, " from rank ", op.peer, ", tag ", op.tag);
  }
  return "?";
}

std::string ShapeOf(const CommOp& op) {
  if (op.kind == CommOp::Kind::kCollective) return ToString(op.header);
  return base::Concat(op.header.count, ' ', base::ToString(op.header.dtype));
}

}  // namespace tessera::engine
