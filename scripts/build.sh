#!/usr/bin/env bash
# Configures and builds: scripts/build.sh [PRESET] [CMake -D options...] [TARGETS...]
#
#   scripts/build.sh                            everything, optimised, into build/cpu-release
#   scripts/build.sh cpu-asan                   address and undefined-behaviour sanitizers
#   scripts/build.sh cpu-release tessera tessera-engine
#   scripts/build.sh cpu-release -DTESSERA_NATIVE=OFF
#
# A folder that is not there yet is built several files at a time (TESSERA_UNITY), which takes less
# time; one that is there stays as it was configured.
#
# CMAKE_BUILD_PARALLEL_LEVEL sets the number of jobs; otherwise one a core, as far as memory goes.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-cpu-release}
options=()
targets=()
for argument in "${@:2}"; do
  if [[ $argument == -* ]]; then options+=("$argument"); else targets+=("$argument"); fi
done

if [[ ! -f build/$preset/CMakeCache.txt ]]; then options=(-DTESSERA_UNITY=ON "${options[@]}"); fi
scripts/install_deps.sh

if [[ -z ${CMAKE_BUILD_PARALLEL_LEVEL:-} ]]; then
  cores=$(nproc)
  # The compiler takes up to 1 GiB for one file.
  by_memory=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  jobs=$((by_memory < cores ? by_memory : cores))
  export CMAKE_BUILD_PARALLEL_LEVEL=$((jobs > 0 ? jobs : 1))
fi
cmake --preset "$preset" "${options[@]}"
cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"}
