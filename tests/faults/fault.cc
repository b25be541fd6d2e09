#include "tests/faults/fault.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>

#include "cost_model/base/error.h"
#include "tests/engine/held_disk.h"

namespace tessera::testing {
namespace {

// Small enough for the weights of any model to go beyond it.
constexpr rlim_t kFullDiskBytes = 512;
// Of the timeout: how late a slow rank is.
constexpr double kSlowShare = 0.5;

void TellTime(const std::string& path) {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  std::ofstream file(path);
  file.precision(17);
  file << now.count() << std::endl;
}

void CutOff(const std::vector<int>& spared) {
  for (const int descriptor : Connections()) {
    if (std::find(spared.begin(), spared.end(), descriptor) == spared.end()) {
      shutdown(descriptor, SHUT_RDWR);
    }
  }
}

void FillDisk() {
  std::signal(SIGXFSZ, SIG_IGN);  // a write then fails as on a full disk
  const rlimit limit = {.rlim_cur = kFullDiskBytes, .rlim_max = kFullDiskBytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

// Until the process ends.
void HoldDisk(int rank) {
  static std::optional<engine::test::HeldDisk> disk;
  disk.emplace(base::Concat("rank_0000", rank));
}

}  // namespace

Fault FaultFromName(std::string_view name) {
  static const std::map<std::string_view, Fault> faults = {
      {"none", Fault::kNone},           {"killed", Fault::kKilled},
      {"stopped", Fault::kStopped},     {"exit_0", Fault::kExit0},
      {"exit_3", Fault::kExit3},        {"segfault", Fault::kSegfault},
      {"exception", Fault::kException}, {"cut_off", Fault::kCutOff},
      {"full_disk", Fault::kFullDisk},  {"hung_disk", Fault::kHungDisk},
      {"slow", Fault::kSlow},           {"skips", Fault::kSkips},
      {"other_call", Fault::kOtherCall}};
  return faults.at(name);
}

std::vector<int> Connections() {
  constexpr int kMostDescriptors = 1024;
  std::vector<int> connections;
  for (int descriptor = 0; descriptor < kMostDescriptors; ++descriptor) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    const bool is_connected =
        getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (is_connected && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)) {
      connections.push_back(descriptor);
    }
  }
  return connections;
}

void Strike(Fault fault, const FaultPlace& place) {
  TellTime(place.time_file);
  switch (fault) {
    case Fault::kKilled:
      raise(SIGKILL);
      break;
    case Fault::kStopped:
      raise(SIGSTOP);
      break;
    case Fault::kExit0:
      std::exit(0);
    case Fault::kExit3:
      std::exit(3);
    case Fault::kSegfault:
      std::signal(SIGSEGV, SIG_DFL);
      raise(SIGSEGV);
      break;
    case Fault::kException:
      throw std::runtime_error("a fault of the test");
    case Fault::kCutOff:
      return CutOff(place.spared);
    case Fault::kFullDisk:
      return FillDisk();
    case Fault::kHungDisk:
      return HoldDisk(place.rank);
    case Fault::kSlow:
      std::this_thread::sleep_for(std::chrono::duration<double>(kSlowShare * place.timeout_s));
      break;
    case Fault::kNone:
    case Fault::kSkips:
    case Fault::kOtherCall:
      break;
  }
}

}  // namespace tessera::testing
