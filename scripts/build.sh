#!/usr/bin/env bash
# Configures and builds: scripts/build.sh [PRESET] [CMake options...]
#
#   scripts/build.sh                            optimised, into build/cpu-release
#   scripts/build.sh cpu-asan                   address and undefined-behaviour sanitizers
#   scripts/build.sh cpu-release -DTESSERA_TESTS=OFF
#
# CMAKE_BUILD_PARALLEL_LEVEL sets the number of jobs; otherwise one a core, as far as memory goes.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-cpu-release}
scripts/install_deps.sh

if [[ -z ${CMAKE_BUILD_PARALLEL_LEVEL:-} ]]; then
  cores=$(nproc)
  # The compiler takes up to 1 GiB for one file.
  by_memory=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  jobs=$((by_memory < cores ? by_memory : cores))
  export CMAKE_BUILD_PARALLEL_LEVEL=$((jobs > 0 ? jobs : 1))
fi
cmake --preset "$preset" "${@:2}"
cmake --build --preset "$preset"
