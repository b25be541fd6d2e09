#include "engine/comm/attendance.h"

#include <unistd.h>

#include <array>
#include <map>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

// "rank 4", "ranks 0, 2-5": runs of more than two by their ends. REQUIRES: ascending.
std::string ListOf(const std::vector<int>& ranks) {
  std::string list;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - begin == 2) --end;
    list += base::Concat(list.empty() ? "" : ", ", ranks[begin]);
    if (end - begin > 1) list += base::Concat('-', ranks[end - 1]);
    begin = end;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + list;
}

}  // namespace

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
                          ListOf(ranks));
  }
  return base::Concat(ListOf(missing), " of ", num_ranks(), " did not come; ", there,
                      " (started by ", launcher_, ')');
}

}  // namespace tessera::engine
