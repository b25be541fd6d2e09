#!/usr/bin/env bash
# Builds the CUDA parts with nvcc and checks the registers and spills of the kernels; needs no GPU.
#
#   scripts/check_cuda_build.sh CPU_BUILD_FOLDER [CMake -D options...]
#
# Kernels, communicators and tessera-engine-cuda come into CPU_BUILD_FOLDER/cuda_build; everything else
# is linked from CPU_BUILD_FOLDER, which must be built and have the same options. Exit code 77
# (skipped) where there is no nvcc or a library is missing.
set -euo pipefail

cpu_build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
build=$cpu_build/cuda_build

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake -S "$source" -B "$build" -G Ninja -DTESSERA_CUDA=ON -DTESSERA_TESTS=OFF \
  -DTESSERA_PREBUILT="$cpu_build" "${@:2}" | tee "$log"
if ! grep -q "Building for CUDA" "$log"; then
  echo "check_cuda_build: skipped: $(grep -A1 -o 'Building for CPU only.*' "$log" | tr -s '\n ' ' ')"
  exit 77
fi
cmake --build "$build" --target tessera_cuda --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
python3 "$source/scripts/check_kernel_resources.py" "$build" --quiet
