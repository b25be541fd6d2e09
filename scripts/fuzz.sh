#!/usr/bin/env bash
# Throws mutated files at every reader of files, by clang's libFuzzer with the address and the
# undefined-behaviour sanitizer: scripts/fuzz.sh [--build FOLDER] [SECONDS [TARGET...]]
#
#   scripts/fuzz.sh                a minute a target, as many at a time as there are cores
#   scripts/fuzz.sh 3600 manifest  an hour of checkpoints' manifests
#
# It builds in FOLDER, build/cpu-fuzz by default. What a target has learned stays in corpus/TARGET
# there; an input that breaks it is kept in findings, and the script ends with 1, or with 77 where
# there is no clang++ with libFuzzer. tests/fuzz/mutation_test.cc is the short form that needs no clang.
set -euo pipefail
source=$(realpath "$(dirname "$0")/..")

build=$source/build/cpu-fuzz
if [[ ${1:-} == --build ]]; then
  build=$2
  shift 2
fi
mkdir -p "$build"
build=$(realpath "$build")
seconds=${1:-60}
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2> /dev/null; then
  echo "fuzz.sh: skipped: no clang++ with libFuzzer; scripts/install_deps.sh brings it" >&2
  exit 77
fi

(cd "$source" && cmake --preset cpu-fuzz -B "$build" -DTESSERA_UNITY=ON > "$build/configure.log") ||
  { cat "$build/configure.log" >&2; exit 1; }
cmake --build "$build" --target fuzz_targets --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"

program=$build/bin/fuzz_targets
mkdir -p "$build/findings"
memory_folder=/dev/shm
[[ -d $memory_folder ]] || memory_folder=${TMPDIR:-/tmp}
TMPDIR=$(mktemp -d "$memory_folder/tessera_fuzz_XXXXXX")
export TMPDIR
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
trap 'rm -rf "$TMPDIR"' EXIT

# Prints a line of what SECONDS of a target came to.
fuzz_target() {
  local target=$1
  local corpus=$build/corpus/$target log=$build/findings/$target.log result=clean
  # The words of the seeds that are text, as libFuzzer's dictionary.
  local words=$TMPDIR/$target.words options=()
  grep -ohaE '"[A-Za-z0-9_.<|>-]{2,40}"' "$corpus"/seed* | sort -u > "$words" || true
  [[ ! -s $words ]] || options+=("-dict=$words")
  TESSERA_FUZZ_TARGET=$target "$program" -max_total_time="$seconds" -malloc_limit_mb=256 \
    -rss_limit_mb=2048 -timeout=10 -max_len=65536 -print_final_stats=1 ${options:+"${options[@]}"} \
    -artifact_prefix="$build/findings/$target-" "$corpus" > "$log" 2>&1 || result="BROKEN, see $log"
  local executions coverage
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
  printf '%-20s %12s %10s %10s  %s\n' "$target" "${executions:--}" "${coverage:--}" \
    "$(find "$corpus" -type f | wc -l)" "$result"
  [[ $result == clean ]] || { tail -n 40 "$log"; return 1; }
}

TESSERA_FUZZ_CORPUS=$build/corpus "$program" > "$TMPDIR/targets"
mapfile -t targets < "$TMPDIR/targets"
(($# < 2)) || targets=("${@:2}")
printf '%-20s %12s %10s %10s  %s\n' target executions coverage corpus result
failed=0
running=0
for target in "${targets[@]}"; do
  if ((running == $(nproc))); then
    wait -n || failed=1
    running=$((running - 1))
  fi
  fuzz_target "$target" &
  running=$((running + 1))
done
while ((running > 0)); do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
