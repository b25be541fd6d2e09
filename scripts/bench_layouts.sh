#!/usr/bin/env bash
# The time of a step by layout, on two cores: scripts/bench_layouts.sh [ROUNDS [OPTIONS]]
#
# Options are those of tests/benchmarks/layout_benchmark.cc: --only pp, --json FILE. Wants a quiet
# machine and some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh cpu-release -DTESSERA_BENCHMARKS=ON layout_benchmark
exec build/cpu-release/bin/layout_benchmark --rounds "${1:-5}" "${@:2}"
