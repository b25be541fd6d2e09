#pragma once

namespace tessera::engine {

// Keeps the calling thread, and the threads that it starts from now on, on its own share of the
// cores: rank r of num_ranks on cores r * threads_per_rank onwards of those the process may use.
// Without it the system at times puts two ranks that wait for each other on one core. Does nothing
// where ranks outnumber cores, or where the system refuses.
void BindToOwnCores(int rank, int num_ranks, int threads_per_rank);

}  // namespace tessera::engine
