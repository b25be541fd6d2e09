#!/usr/bin/env bash
# Builds and checks the CUDA parts on a machine with an NVIDIA GPU, then measures them; one command.
#
#   scripts/gpu_check.sh [--bundle FILE|FOLDER] [--out FILE] [--quick] [--skip PART]... [--minutes N]
#
# Takes CUDA 13, CMake, Ninja, g++ and Python 3, and the bundle of scripts/gpu_bundle.sh where the
# packages of scripts/install_deps.sh are not installed. Where python3 has PyTorch, the same models run
# there too. Exit code 0: nothing failed; 1: something did; 77: there is no GPU here.
# --help tells the parts and the options; scripts/gpu_report.py tells the JSON that --out writes.
set -euo pipefail
if ! command -v python3 >/dev/null; then
  echo "gpu_check: needs python3" >&2
  exit 1
fi
exec python3 -B "$(dirname "$0")/gpu_check.py" "$@"
