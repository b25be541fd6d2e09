#!/usr/bin/env bash
# Speed and memory of a training step on two threads, against the machine's own sgemm and against
# PyTorch in the same run: scripts/bench_train.sh [STEPS]
#
# Wants a quiet machine and some minutes. PyTorch is Debian's python3-torch where it is installed;
# without it the engine is measured alone.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh --dev
scripts/build.sh cpu-release -DTESSERA_BENCHMARKS=ON train_benchmark
exec /usr/bin/python3 tests/benchmarks/compare_training.py \
  --engine build/cpu-release/bin/train_benchmark --steps "${1:-3}"
