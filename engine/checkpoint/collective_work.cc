#include "engine/checkpoint/collective_work.h"

#include <cstdint>
#include <exception>
#include <string>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

// The message of rank `root`, on every rank.
std::string ShareMessage(Communicator& world, std::string message, int root) {
  auto length = static_cast<int64_t>(message.size());
  world.Broadcast(&length, 1, base::DType::kInt64, root);
  message.resize(static_cast<size_t>(length));
  world.Broadcast(message.data(), length, base::DType::kUInt8, root);
  return message;
}

}  // namespace

void RunOnAllRanks(Communicator& world, const std::string& what,
                   const std::function<void()>& work) {
  std::exception_ptr failure;
  std::string message;
  // Caught to be told to the peers and thrown again, never to be swallowed.
  try {
    work();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    message = error.what();
  }
  const int32_t mine = failure ? world.rank() : world.size();
  int32_t first_failed = world.size();
  world.AllReduce(&mine, &first_failed, 1, base::DType::kInt32, base::ReduceOp::kMin);
  if (first_failed == world.size()) return;
  message = ShareMessage(world, message, first_failed);
  if (failure) std::rethrow_exception(failure);
  throw base::SystemError(base::Concat(what, " failed on rank ", first_failed, ": ", message));
}

void RunOnFirstRank(Communicator& world, const std::string& what,
                    const std::function<void()>& work) {
  RunOnAllRanks(world, what, [&] {
    if (world.rank() == 0) work();
  });
}

}  // namespace tessera::engine
