#pragma once

namespace tessera::engine {

// Keeps the calling thread, and the threads that it starts from now on, on its own share of the
// cores: rank r of num_ranks on cores r * threads_per_rank onwards of those the process may use.
// Without it the system at times puts two ranks that wait for each other on one core. Does nothing
// where ranks outnumber cores, where they leave a share of the cores that another job may be meant
// for (which would bind itself to the same ones), or where the system refuses. Threads that a BLAS
// library has started before stay as they are: the kernels give them nothing to do.
void BindToOwnCores(int rank, int num_ranks, int threads_per_rank);

}  // namespace tessera::engine
