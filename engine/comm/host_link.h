// How ranks that are processes of one host talk to each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::engine {

// kShared: through shared memory in groups whose ranks are all on one host and can see each
// other's, by TCP in others.
enum class HostLink : uint8_t { kShared, kTcp };

std::string_view ToString(HostLink link);  // "shm"
// Throws base::ConfigError for another word.
HostLink HostLinkFromString(const std::string& text);

}  // namespace tessera::engine
