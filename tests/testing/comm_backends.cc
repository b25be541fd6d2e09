#include "tests/testing/comm_backends.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>

#include "cost_model/base/error.h"
#include "engine/comm/first_failure.h"
#include "engine/comm/thread_world_state.h"

namespace tessera::testing {
namespace {

// A rank that stands for a process.
void RunProcessRank(int rank, int num_ranks, const engine::MeetingPlace& place,
                    const engine::ProcessWorldOptions& options,
                    const std::function<void(engine::Communicator&)>& body) {
  const auto world = engine::JoinProcessWorld(
      {.rank = rank, .num_ranks = num_ranks, .launcher = "a test"}, place, options);
  try {
    body(*world);
  } catch (const std::exception& error) {
    world->Abort(base::Concat("rank ", rank, " failed: ", error.what()));
    throw;
  } catch (...) {
    world->Abort(base::Concat("rank ", rank, " failed: an exception of unknown type"));
    throw;
  }
}

void RunProcessRanks(engine::HostLink link, int num_ranks, const CommOptions& options,
                     const std::function<void(engine::Communicator&)>& body) {
  // A port that was free may be another's by the time that rank 0 listens.
  static std::atomic<int> num_meetings{0};
  const engine::MeetingPlace place = {
      .file = base::Concat(::testing::TempDir(), "meeting-", getpid(), '-', num_meetings++)};
  engine::FirstFailure failure;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < num_ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          RunProcessRank(rank, num_ranks, place,
                         {.init_timeout_s = kTestTimeoutSeconds,
                          .timeout_s = options.timeout_s,
                          .checks_calls = options.checks_calls,
                          .host_link = link,
                          .record_folder = options.record_folder},
                         body);
        } catch (const engine::AbortedError&) {
          failure.Add(std::current_exception(), /*is_consequence=*/true);
        } catch (...) {
          failure.Add(std::current_exception(), /*is_consequence=*/false);
        }
      });
    }
  }
  std::filesystem::remove(place.file);
  failure.RethrowIfAny();
}

}  // namespace

void RunRanks(CommBackend backend, int num_ranks, const CommOptions& options,
              const std::function<void(engine::Communicator&)>& body) {
  if (backend != CommBackend::kThread) {
    const auto link =
        backend == CommBackend::kShared ? engine::HostLink::kShared : engine::HostLink::kTcp;
    return RunProcessRanks(link, num_ranks, options, body);
  }
  engine::RunThreadRanks(num_ranks,
                         {.timeout_s = options.timeout_s,
                          .rendezvous_sends = options.rendezvous_sends,
                          .record_folder = options.record_folder},
                         body);
}

std::string OnEachBackend::CommFailureOf(
    int num_ranks, const CommOptions& options,
    const std::function<void(engine::Communicator&)>& body) const {
  try {
    testing::RunRanks(GetParam(), num_ranks, options, body);
  } catch (const base::CommError& error) {
    return error.what();
  }
  return "no failure";
}

}  // namespace tessera::testing
