// A sparse file in memory that processes of one host map. It has no name anywhere, so that nothing
// is left of it when the last process that has it ends, however it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::engine {

class SharedFile {
 public:
  // Mapped one by one, as they are used.
  static constexpr int64_t kRegionBytes = int64_t{64} << 20;
  // Of address space in the file; memory is what has been written.
  static constexpr int64_t kMaxBytes = int64_t{1} << 40;

  // A new one. Throws base::SystemError.
  SharedFile();
  // Another process's. Throws base::SystemError where it is not within reach: on another host or
  // in another container, of another user, or gone.
  explicit SharedFile(const std::string& ticket);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // What another process finds it by: host, process, descriptor and a random number.
  const std::string& ticket() const { return ticket_; }
  // A word that is the same for the processes of one host: the first of a ticket. Those of another
  // network namespace count as another host.
  static std::string HostOf(const std::string& ticket);

  // What lies at `offset`, up to the end of its region. Not safe to call from several threads at
  // once. The first kFirstByte bytes are the file's own. Throws base::SystemError.
  std::byte* At(int64_t offset);
  static constexpr int64_t kFirstByte = 64;

 private:
  int descriptor_ = -1;
  std::string ticket_;
  std::vector<std::byte*> regions_;  // null: not mapped yet
};

}  // namespace tessera::engine
