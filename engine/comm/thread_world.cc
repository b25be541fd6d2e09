#include "engine/comm/thread_world.h"

#include <exception>
#include <numeric>
#include <thread>
#include <vector>

#include "cost_model/base/check.h"
#include "engine/comm/first_failure.h"
#include "engine/comm/rank_activity.h"
#include "engine/comm/thread_communicator.h"
#include "engine/comm/thread_group.h"
#include "engine/comm/thread_world_state.h"

namespace tessera::engine {
namespace {

// The exception that a rank's thread has thrown, for the others and for the caller.
class RankFailure {
 public:
  RankFailure(ThreadWorldState& state, int rank, const RankActivity& activity)
      : state_(state), rank_(rank), activity_(activity) {}

  template <typename Error>
  std::exception_ptr OfCommunication(const Error& error) {
    TellPeers(error.what());
    const std::string note = Record(error.what());
    return note.empty() ? std::current_exception()
                        : std::make_exception_ptr(Error(error.what() + note));
  }
  std::exception_ptr OfItsOwn(const char* what) {
    TellPeers(what);
    Record(what);
    return std::current_exception();
  }
  // What the rank did before it found its input wrong tells nobody anything.
  std::exception_ptr OfInput(const char* what) {
    TellPeers(what);
    return std::current_exception();
  }

 private:
  void TellPeers(const char* what) {
    state_.Abort(base::Concat("rank ", rank_, " failed: ", what));
  }
  // A rank alone talks to nobody.
  std::string Record(const std::string& reason) const {
    if (state_.num_ranks() == 1) return "";
    return RecordFailure(activity_, state_.options().record_folder, rank_, reason);
  }

  ThreadWorldState& state_;
  const int rank_;
  const RankActivity& activity_;
};

void RunRank(ThreadWorldState& state, ThreadGroup& group, int rank,
             const std::function<void(Communicator& world)>& body, FirstFailure& first) {
  RankActivity activity;
  RankFailure failure(state, rank, activity);
  try {
    ThreadCommunicator world(group, rank, activity);
    body(world);
  } catch (const AbortedError& error) {
    first.Add(failure.OfCommunication(error), /*is_consequence=*/true);
  } catch (const base::CommError& error) {
    first.Add(failure.OfCommunication(error), /*is_consequence=*/false);
  } catch (const base::ConfigError& error) {
    first.Add(failure.OfInput(error.what()), /*is_consequence=*/false);
  } catch (const std::exception& error) {
    first.Add(failure.OfItsOwn(error.what()), /*is_consequence=*/false);
  } catch (...) {
    first.Add(failure.OfItsOwn("an exception of unknown type"), /*is_consequence=*/false);
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
