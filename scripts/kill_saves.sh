#!/usr/bin/env bash
# Kills training processes while they save, a hundred times (or as often as told), and holds what
# they leave behind against an undisturbed run, byte by byte.
#
#   scripts/kill_saves.sh [NUM_KILLS] [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
num_kills="${1:-100}"
build="${2:-build/cpu-release}"
TESSERA_NUM_KILLS="$num_kills" "$build/bin/integration_tests" --gtest_filter='KilledSaveTest.*'
