#!/usr/bin/env bash
# Installs, builds and runs all tests and checks: scripts/test.sh [PRESET] [CTest options...]
#
#   scripts/test.sh                             everything, as continuous integration does
#   scripts/test.sh cpu-release -L unit         one label: unit, validation, integration, style
#   scripts/test.sh cpu-tsan -R engine          tests whose name matches
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-cpu-release}
scripts/build.sh "$preset"
ctest --test-dir "build/$preset" --output-on-failure --parallel "$(nproc)" "${@:2}"
