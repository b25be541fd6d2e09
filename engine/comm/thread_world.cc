#include "engine/comm/thread_world.h"

#include <exception>
#include <numeric>
#include <thread>
#include <vector>

#include "cost_model/base/check.h"
#include "engine/comm/first_failure.h"
#include "engine/comm/thread_communicator.h"
#include "engine/comm/thread_group.h"
#include "engine/comm/thread_world_state.h"

namespace tessera::engine {
namespace {

void RunRank(ThreadWorldState& state, ThreadGroup& group, int rank,
             const std::function<void(Communicator& world)>& body, FirstFailure& failure) {
  const auto fail = [&](bool is_consequence, const char* what) {
    failure.Add(std::current_exception(), is_consequence);
    state.Abort(base::Concat("rank ", rank, " failed: ", what));
  };
  try {
    ThreadCommunicator world(group, rank);
    body(world);
  } catch (const AbortedError& error) {
    fail(true, error.what());
  } catch (const std::exception& error) {
    fail(false, error.what());
  } catch (...) {
    fail(false, "an exception of unknown type");
  }
  state.MarkEnded(rank);
}

}  // namespace

void RunThreadRanks(int num_ranks, const ThreadWorldOptions& options,
                    const std::function<void(Communicator& world)>& body) {
  TESSERA_CHECK(num_ranks > 0, "a world of ", num_ranks, " ranks");
  ThreadWorldState state(num_ranks, options);
  std::vector<int> ranks(num_ranks);
  std::iota(ranks.begin(), ranks.end(), 0);
  ThreadGroup& group = state.AddGroup("world", ranks);
  FirstFailure failure;
  {
    std::vector<std::jthread> threads;  // joined at the end of the block
    try {
      for (const int rank : ranks) {
        threads.emplace_back([&, rank] { RunRank(state, group, rank, body, failure); });
      }
    } catch (const std::exception& error) {
      // The ranks already started must not wait for those that never come.
      state.Abort(base::Concat("cannot start rank ", threads.size(), ": ", error.what()));
      throw;
    }
  }
  failure.RethrowIfAny();
}

}  // namespace tessera::engine
