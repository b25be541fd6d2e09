#include "engine/cli/device_choice.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cost_model/base/error.h"

namespace tessera::engine {

void RunWhereDeviceIs(DeviceKind device, const std::vector<std::string>& arguments) {
  if (HasDevice(device)) return;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string sibling = (self.parent_path() / "tessera-engine-cuda").string();
  if (access(sibling.c_str(), X_OK) != 0) {
    throw base::ConfigError(
        "--device", "", std::string(ToString(device)),
        "cpu: this is a build for CPUs alone, without tessera-engine-cuda beside it");
  }
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));  // execv changes nothing
  }
  pointers.push_back(nullptr);
  execv(sibling.c_str(), pointers.data());
  throw base::SystemError(base::Concat("cannot run ", sibling, ": ", std::strerror(errno)));
}

}  // namespace tessera::engine
