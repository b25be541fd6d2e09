#include "engine/comm/host_link.h"

#include "cost_model/base/error.h"

namespace tessera::engine {

std::string_view ToString(HostLink link) { return link == HostLink::kShared ? "shm" : "tcp"; }

HostLink HostLinkFromString(const std::string& text) {
  for (const HostLink link : {HostLink::kShared, HostLink::kTcp}) {
    if (text == ToString(link)) return link;
  }
  throw base::ConfigError("--host-link", "", text, "shm or tcp");
}

}  // namespace tessera::engine
