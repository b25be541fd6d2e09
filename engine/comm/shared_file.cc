#include "engine/comm/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <system_error>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

// At the start of a file: tells it from another that has taken its process's or descriptor's
// number.
struct Seal {
  uint64_t words[2] = {};
  bool operator==(const Seal&) const = default;
};
static_assert(sizeof(Seal) <= SharedFile::kFirstByte);

Seal NewSeal() {
  std::random_device random;
  Seal seal;
  for (uint64_t& word : seal.words) word = uint64_t{random()} << 32 | random();
  return seal;
}

// What a host was given at its start, and the network as this process sees it.
std::string HostWord() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  file >> boot_id;
  std::error_code ignored;
  return boot_id + '/' + std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
}

// A process that may not have files so large is killed by a signal when it makes one.
void RequireLargeFiles() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= SharedFile::kMaxBytes) return;
  throw base::SystemError(base::Concat("files may have ", limit.rlim_cur, " bytes only"));
}

[[noreturn]] void ThrowSystemError(const std::string& what) {
  throw base::SystemError(base::Concat(what, ": ", std::strerror(errno)));
}

}  // namespace

SharedFile::SharedFile() {
  RequireLargeFiles();
  descriptor_ = memfd_create("tessera", MFD_CLOEXEC);
  if (descriptor_ < 0) ThrowSystemError("memfd_create");
  try {
    if (ftruncate(descriptor_, kMaxBytes) != 0) ThrowSystemError("ftruncate of shared memory");
    const Seal seal = NewSeal();
    std::memcpy(At(0), &seal, sizeof(seal));
    ticket_ = base::Concat(HostWord(), ' ', getpid(), ' ', descriptor_, ' ', seal.words[0], ' ',
                           seal.words[1]);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SharedFile::SharedFile(const std::string& ticket) : ticket_(ticket) {
  std::istringstream words(ticket);
  std::string host;
  int64_t process = 0;
  int descriptor = -1;
  Seal seal;
  words >> host >> process >> descriptor >> seal.words[0] >> seal.words[1];
  if (!words || host != HostWord()) throw base::SystemError("memory of another host");
  const std::string path = base::Concat("/proc/", process, "/fd/", descriptor);
  descriptor_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) ThrowSystemError("open " + path);
  try {
    // Of a file that is no such one nothing must be touched that it does not have.
    Seal found;
    if (pread(descriptor_, &found, sizeof(found), 0) != sizeof(found) || found != seal) {
      throw base::SystemError(path + " is another file");
    }
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SharedFile::~SharedFile() {
  for (std::byte* const region : regions_) {
    if (region != nullptr) munmap(region, kRegionBytes);
  }
  close(descriptor_);
}

std::string SharedFile::HostOf(const std::string& ticket) {
  return ticket.substr(0, ticket.find(' '));
}

std::byte* SharedFile::At(int64_t offset) {
  const auto index = static_cast<size_t>(offset / kRegionBytes);
  if (index >= regions_.size()) regions_.resize(index + 1);
  if (regions_[index] == nullptr) {
    void* const region = mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                              descriptor_, static_cast<off_t>(index) * kRegionBytes);
    if (region == MAP_FAILED) ThrowSystemError("mmap of shared memory");
    regions_[index] = static_cast<std::byte*>(region);
  }
  return regions_[index] + offset % kRegionBytes;
}

}  // namespace tessera::engine
