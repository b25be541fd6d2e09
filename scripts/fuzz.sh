#!/usr/bin/env bash
# Throws mutated files at every reader of files, by clang's libFuzzer with the address and the
# undefined-behaviour sanitizer: scripts/fuzz.sh [SECONDS [TARGET...]]
#
#   scripts/fuzz.sh                a minute a target
#   scripts/fuzz.sh 3600 manifest  an hour of checkpoints' manifests
#
# What a target has learned stays in build/cpu-fuzz/corpus/TARGET; an input that breaks it is kept in
# build/cpu-fuzz/findings, and the script ends with 1. tests/fuzz/mutation_test.cc is the short form
# that the tests run.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
if ! command -v clang++ > /dev/null; then
  echo "fuzz.sh: clang++ not found: apt-get install clang (Debian), or scripts/install_deps.sh --dev" >&2
  exit 2
fi
scripts/build.sh cpu-fuzz fuzz_targets
program=$PWD/build/cpu-fuzz/bin/fuzz_targets
findings=$PWD/build/cpu-fuzz/findings
mkdir -p "$findings"
if [[ -d /dev/shm ]]; then export TMPDIR=/dev/shm; fi

targets=("${@:2}")
if [[ ${#targets[@]} == 0 ]]; then mapfile -t targets < <("$program" -runs=0 2> /dev/null); fi
printf '%-20s %12s %10s %10s  %s\n' target executions coverage corpus result
failed=0
for target in "${targets[@]}"; do
  corpus=$PWD/build/cpu-fuzz/corpus/$target
  mkdir -p "$corpus"
  log=$findings/$target.log
  result=clean
  TESSERA_FUZZ_TARGET=$target TESSERA_FUZZ_SEEDS=$corpus \
    "$program" -max_total_time="$seconds" -malloc_limit_mb=256 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$findings/$target-" "$corpus" > "$log" 2>&1 || { result="BROKEN, see $log"; failed=1; }
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
  printf '%-20s %12s %10s %10s  %s\n' "$target" "${executions:--}" "${coverage:--}" \
    "$(find "$corpus" -type f | wc -l)" "$result"
done
exit $failed
