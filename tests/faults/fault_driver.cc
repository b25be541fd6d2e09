// One rank of a run in which a fault strikes at a known moment; scripts/fault_matrix.py starts all:
//
//   fault_driver OPERATION FAULT VICTIM MOMENT TIMEOUT_S INIT_TIMEOUT_S FOLDER
//
// OPERATION: all_reduce, reduce_scatter, send_recv, barrier, save. MOMENT: `before` the victim's
// call, or `within` it, which a peer that is late holds up until then. The launcher's variables say
// which rank this is and where the ranks meet.
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/comm/process_world.h"
#include "tests/faults/fault.h"
#include "tests/faults/fault_training.h"

namespace tessera::testing {
namespace {

using base::DType;
using base::ReduceOp;

constexpr int kNumRounds = 8;
constexpr std::chrono::milliseconds kStrikeDelay{150};
constexpr std::chrono::milliseconds kPeerDelay{400};

FaultRun ParseArguments(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 7) throw std::invalid_argument("seven arguments: see the source");
  const auto process = engine::FindProcessRank(engine::ReadEnvironment);
  if (!process) throw std::invalid_argument("not started as one rank of several");
  return {.operation = words[0],
          .fault = FaultFromName(words[1]),
          .is_victim = process->rank == std::stoi(words[2]),
          // The victim's neighbour comes late where the fault strikes within an operation.
          .holds_up = process->rank == (std::stoi(words[2]) + 1) % process->num_ranks,
          .strikes_within = words[3] == "within",
          .timeout_s = std::stod(words[4]),
          .init_timeout_s = std::stod(words[5]),
          .folder = words[6],
          .process = *process,
          .place = engine::FindMeetingPlace(engine::ReadEnvironment)};
}

// The operations of one rank, each of a size of its own, so that none can pass for another.
class Rounds {
 public:
  Rounds(const FaultRun& run, engine::Communicator& group, FaultPlace place)
      : run_(run), group_(group), place_(std::move(place)) {}

  void Run(int round) {
    const int64_t count = kCount + round;
    if (round != kFaultStep || run_.fault == Fault::kNone) {
      Call(run_.operation, count);
    } else if (run_.is_victim) {
      RunFaulty(count);
    } else {
      if (run_.strikes_within && run_.holds_up) std::this_thread::sleep_for(kPeerDelay);
      Call(run_.operation, count);
    }
    const auto rank = static_cast<float>(group_.rank());
    group_.AllGather(&rank, received_.data(), 1, DType::kFloat32);
  }

 private:
  static constexpr int64_t kCount = 1000;

  void RunFaulty(int64_t count) {
    std::jthread striker;
    if (!run_.strikes_within) {
      Strike(run_.fault, place_);
    } else if (run_.fault == Fault::kException) {
      // Unwinds with a transfer under way.
      const auto pending = group_.RecvAsync(received_.data(), count, DType::kFloat32, Previous(),
                                            /*tag=*/9);
      Strike(run_.fault, place_);
    } else {
      striker = std::jthread([this] {
        std::this_thread::sleep_for(kStrikeDelay);
        Strike(run_.fault, place_);
      });
    }
    if (run_.fault == Fault::kSkips) return;
    if (run_.fault != Fault::kOtherCall) return Call(run_.operation, count);
    Call(run_.operation == "barrier" ? "all_reduce" : run_.operation, count + 1);
  }

  void Call(const std::string& operation, int64_t count) {
    float* const sent = sent_.data();
    float* const received = received_.data();
    if (operation == "all_reduce") {
      group_.AllReduce(sent, received, count, DType::kFloat32, ReduceOp::kSum);
    } else if (operation == "reduce_scatter") {
      group_.ReduceScatter(sent, received, count, DType::kFloat32, ReduceOp::kSum);
    } else if (operation == "send_recv") {
      group_.GroupStart();
      group_.Send(sent, count, DType::kFloat32, (group_.rank() + 1) % group_.size(), /*tag=*/7);
      group_.Recv(received, count, DType::kFloat32, Previous(), /*tag=*/7);
      group_.GroupEnd();
    } else if (operation == "barrier") {
      group_.Barrier();
    } else {
      throw std::invalid_argument("no operation: " + operation);
    }
  }
  int Previous() const { return (group_.rank() + group_.size() - 1) % group_.size(); }

  const FaultRun& run_;
  engine::Communicator& group_;
  const FaultPlace place_;
  std::vector<float> sent_ = std::vector<float>(100'000, 1.0f);
  std::vector<float> received_ = std::vector<float>(100'000);
};

// Memory has no connections that could be cut.
engine::HostLink LinkFor(Fault fault) {
  return fault == Fault::kCutOff ? engine::HostLink::kTcp : engine::HostLink::kShared;
}

void RunOperations(const FaultRun& run) {
  const auto world = engine::JoinProcessWorld(run.process, run.place,
                                              {.init_timeout_s = run.init_timeout_s,
                                               .timeout_s = run.timeout_s,
                                               .host_link = LinkFor(run.fault),
                                               .record_folder = run.folder});
  try {
    const std::vector<int> spared = run.strikes_within ? Connections() : std::vector<int>();
    const auto group = world->Split(0, world->rank(), "dp{0-3}");
    Rounds rounds(run, *group, PlaceOf(run, spared));
    for (int round = 1; round <= kNumRounds; ++round) {
      world->BeginStep(round);
      rounds.Run(round);
    }
  } catch (const base::CommError&) {
    throw;
  } catch (const std::exception& error) {
    world->Abort(base::Concat("rank ", world->rank(), " failed: ", error.what()));
    throw;
  }
}

int Fail(const std::string& message, int exit_code) {
  std::cerr << "tessera: error: " << message.substr(0, message.find('\n')) << '\n';
  return exit_code;
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  using namespace tessera;
  try {
    const testing::FaultRun run = testing::ParseArguments(argc, argv);
    if (run.operation == "save") {
      testing::RunTrainingWithFault(run);
    } else {
      testing::RunOperations(run);
    }
    return base::kExitDone;
  } catch (const base::CommError& error) {
    return testing::Fail(error.what(), base::kExitPeerLost);
  } catch (const std::exception& error) {
    return testing::Fail(error.what(), base::kExitFailure);
  }
}
