#include "engine/train/core_binding.h"

#include <sched.h>

#include <vector>

namespace tessera::engine {

void BindToOwnCores(int rank, int num_ranks, int threads_per_rank) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return;
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable)) cores.push_back(core);
  }
  const size_t cores_per_rank = cores.size() / static_cast<size_t>(num_ranks);
  if (cores_per_rank != static_cast<size_t>(threads_per_rank)) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  for (int i = 0; i < threads_per_rank; ++i) {
    CPU_SET(cores[static_cast<size_t>(rank) * threads_per_rank + i], &own);
  }
  sched_setaffinity(0, sizeof(own), &own);  // a refusal costs speed alone
}

}  // namespace tessera::engine
