#include "engine/comm/attendance.h"

#include <unistd.h>

#include <array>
#include <map>

#include "cost_model/base/error.h"
#include "engine/comm/rank_progress.h"

namespace tessera::engine {

std::string OwnHostName() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  return name.front() == '\0' ? "an unnamed host" : name.data();
}

std::string Attendance::WhoIsMissing() const {
  std::vector<int> missing;
  std::map<std::string, std::vector<int>> by_host;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const std::optional<std::string>& host = hosts_[static_cast<size_t>(rank)];
    (host ? by_host[*host] : missing).push_back(rank);
  }
  std::string there;
  for (const auto& [host, ranks] : by_host) {
    const std::string is = ranks.size() == 1 ? " is " : " are ";
    there += base::Concat(there.empty() ? "" : ", ", "on ", host, there.empty() ? is : " ",
                          ListOfRanks(ranks));
  }
  return base::Concat(ListOfRanks(missing), " of ", num_ranks(), " did not come; ", there,
                      " (started by ", launcher_, ')');
}

}  // namespace tessera::engine
