#include <boost/context/detail/fcontext.hpp>

#include "tests/cuda_emulation/execution/stack_switch.h"

namespace tessera::cuda_emulation {
namespace {

namespace context = boost::context::detail;

struct Message {
  void** suspended;
  void* payload;
};

void Enter(context::transfer_t transfer) {
  const Message message = *static_cast<const Message*>(transfer.data);
  *message.suspended = transfer.fctx;
  EnterStack(message.payload);
}

}  // namespace

void* PrepareStack(char* bottom, char* top) {
  return context::make_fcontext(top, static_cast<size_t>(top - bottom), &Enter);
}

void SwitchStack(void** suspended, void* to, void* payload) {
  Message message{.suspended = suspended, .payload = payload};
  const context::transfer_t transfer = context::jump_fcontext(to, &message);
  *static_cast<const Message*>(transfer.data)->suspended = transfer.fctx;
}

}  // namespace tessera::cuda_emulation
