#!/usr/bin/env bash
# Collectives and messages between ranks of one host: threads, processes over shared memory and over
# TCP, Gloo's own algorithms and MPI, side by side: scripts/bench_comm.sh [ROUNDS]
#
# Every round runs all of them in turn; no rank is bound to a core, which Gloo, with a thread of its
# own beside each rank's, would pay for. MPI is Debian's libopenmpi-dev where it is installed. Wants
# a quiet machine and some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh cpu-release -DTESSERA_BENCHMARKS=ON comm_benchmark gloo_peer
binaries=build/cpu-release/bin
libraries=(thread shm tcp gloo)
if command -v mpicxx > /dev/null; then
  mpicxx -std=c++20 -O3 -I. tests/benchmarks/mpi_peer.cc -o "$binaries/mpi_peer"
  libraries+=(mpi)
fi

rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
for ((round = 0; round < ${1:-5}; ++round)); do
  for ranks in 2 4; do
    for library in "${libraries[@]}"; do
      case $library in
        mpi) mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$ranks" \
          "$binaries/mpi_peer" ;;
        gloo) "$binaries/gloo_peer" "$ranks" ;;
        *) "$binaries/comm_benchmark" "$library" "$ranks" ;;
      esac >> "$rows" || echo "bench_comm.sh: $library with $ranks ranks stopped in round $round" >&2
    done
  done
done
/usr/bin/python3 tests/benchmarks/comm_table.py "$rows"
