// What one rank computes on and how its device memory travels to other ranks.
//
// Two files define HasDevice, MakeRankDevice and JoinProcesses; the build picks one for each
// executable: cpu_device.cc knows CPUs alone, cuda_device.cc knows CUDA as well.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/comm/communicator.h"
#include "engine/comm/host_link.h"
#include "engine/comm/launch_environment.h"
#include "kernels/backend.h"

namespace tessera::engine {

enum class DeviceKind : uint8_t { kCpu, kCuda };
enum class CommKind : uint8_t { kThread, kGloo, kNccl };

std::string_view ToString(DeviceKind device);  // "cpu"
std::string_view ToString(CommKind comm);      // "thread"
// Throw base::ConfigError for another word.
DeviceKind DeviceKindFromString(const std::string& text);
CommKind CommKindFromString(const std::string& text);

struct DeviceOptions {
  DeviceKind device = DeviceKind::kCpu;
  CommKind comm = CommKind::kThread;
  int threads_per_rank = 1;  // CPU
  double timeout_s = 600;    // of a wait for other ranks
  // Of ranks that are processes:
  double init_timeout_s = 60;  // until all have met
  bool checks_calls = false;   // see ProcessWorldOptions
  std::string interface;
  HostLink host_link = HostLink::kShared;
  std::string record_folder;
  bool deterministic = false;  // the same bits in every run: CPUs give them in any case
};

// What the system tells of a rank's device.
struct DeviceInfo {
  std::string name;
  int num_devices = 1;  // of its kind on this host
  int64_t memory_bytes = 0;
  int64_t used_bytes = 0;  // of these, at the time of the call: the runtime's, and the caller's
};

class RankDevice {
 public:
  virtual ~RankDevice() = default;
  virtual kernels::Backend& backend() = 0;
  // All ranks; carries device memory. The host world itself on the CPU.
  virtual Communicator& world() = 0;
  // Empty where the device is the host itself.
  virtual DeviceInfo Info() const { return {}; }
  // Whether every operation of `world` waits for the device on the host.
  virtual bool comm_blocks_host() const { return false; }
  // Shows operations to the device's own profilers; null where there are none.
  virtual base::OpObserver* op_ranges() { return nullptr; }
};

// Whether this executable was built for such devices.
bool HasDevice(DeviceKind device);

// Collective over `host_world`, of threads of this process, which carries host memory and must
// outlive the device; called on the rank's own thread. Throws base::ConfigError where this
// executable has no such device.
std::unique_ptr<RankDevice> MakeRankDevice(const DeviceOptions& options, Communicator& host_world);

// A rank that is a process of its own.
struct ProcessDevice {
  std::unique_ptr<RankDevice> device;
  std::unique_ptr<Communicator> host_world;  // over the device's world
};

// Throws base::ConfigError for options with which ranks cannot be processes of their own: others
// than Gloo, and CUDA with NCCL.
void CheckProcesses(const DeviceOptions& options, const ProcessRank& process);

// Collective over the processes of a launcher: they meet at `place` and become the ranks of one
// world. On GPUs each takes its launcher's local rank (else its rank) modulo the GPUs that it sees.
// Throws as CheckProcesses does, and base::ConfigError where this executable knows no such ranks.
ProcessDevice JoinProcesses(const DeviceOptions& options, const ProcessRank& process,
                            const MeetingPlace& place);

}  // namespace tessera::engine
