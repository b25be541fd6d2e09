#include "engine/checkpoint/collective_work.h"

#include <cstdint>
#include <exception>
#include <string>

#include "cost_model/base/error.h"
#include "engine/checkpoint/file_io.h"

namespace tessera::engine {

std::string BroadcastText(Communicator& world, std::string text, int root) {
  auto length = static_cast<int64_t>(text.size());
  world.Broadcast(&length, 1, base::DType::kInt64, root);
  text.resize(static_cast<size_t>(length));
  world.Broadcast(text.data(), length, base::DType::kUInt8, root);
  return text;
}

std::string SharedSuffix(Communicator& world) {
  return BroadcastText(world, world.rank() == 0 ? TemporarySuffix() : "", /*root=*/0);
}

void MeetBeforeFailing(Communicator& world) {
  try {
    world.Barrier();
  } catch (const base::CommError&) {
    // One has gone already; so all had come.
  }
}

void RunOnAllRanks(Communicator& world, const std::string& what,
                   const std::function<void()>& work) {
  std::exception_ptr failure;
  std::string message;
  int32_t is_wrong_input = 0;
  // Caught to be told to the peers and thrown again, never to be swallowed.
  try {
    work();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    message = error.what();
    is_wrong_input = dynamic_cast<const base::ConfigError*>(&error) != nullptr ? 1 : 0;
  }
  const int32_t mine = failure ? world.rank() : world.size();
  int32_t first_failed = world.size();
  world.AllReduce(&mine, &first_failed, 1, base::DType::kInt32, base::ReduceOp::kMin);
  if (first_failed == world.size()) return;
  message = BroadcastText(world, message, first_failed);
  world.Broadcast(&is_wrong_input, 1, base::DType::kInt32, first_failed);
  MeetBeforeFailing(world);
  if (failure) std::rethrow_exception(failure);
  message = base::Concat(what, " failed on rank ", first_failed, ": ", message);
  if (is_wrong_input == 1) throw base::ConfigError(message);
  throw base::SystemError(message);
}

void RunOnFirstRank(Communicator& world, const std::string& what,
                    const std::function<void()>& work) {
  RunOnAllRanks(world, what, [&] {
    if (world.rank() == 0) work();
  });
}

}  // namespace tessera::engine
