#!/usr/bin/env bash
# Runs clang-tidy with the settings of .clang-tidy: scripts/tidy.sh [--all | FILES...]
#
#   scripts/tidy.sh                  source files that differ from the last commit, new ones included
#   scripts/tidy.sh --all            every source file
#   scripts/tidy.sh kernels/cpu/*.cc
#
# Needs a configured build for the compile flags: build/cpu-release, or the folder in TESSERA_BUILD.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${TESSERA_BUILD:-build/cpu-release}
if ! command -v clang-tidy >/dev/null; then
  echo "tidy: no clang-tidy here: scripts/install_deps.sh --dev installs it" >&2
  exit 1
fi
if [[ ! -f $build/compile_commands.json ]]; then
  echo "tidy: $build/compile_commands.json is missing: run scripts/build.sh first" >&2
  exit 1
fi

case "${1:-}" in
  "") mapfile -t files < <(git diff --name-only --diff-filter=d HEAD -- '*.cc'
                           git ls-files --others --exclude-standard -- '*.cc') ;;
  --all) mapfile -t files < <(git ls-files -- '*.cc') ;;
  *) files=("$@") ;;
esac
if ((${#files[@]} == 0)); then
  echo "tidy: no source file has changed"
  exit 0
fi
echo "tidy: ${#files[@]} files"
# One command a file, also where a build joins several.
mkdir -p "$build/tidy"
scripts/compile_commands.py "$build" > "$build/tidy/compile_commands.json"
# GCC's warning flags mean nothing to clang.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p "$build/tidy" --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option 2>&1 |
  { grep -vE '^[0-9]+ warnings? generated' || true; }
