#!/usr/bin/env bash
# Packs what building takes besides CUDA, CMake, Ninja and g++, for a machine with a GPU but without
# a package registry: libraries as headers and static archives, each with a CMake file that finds it
# wherever the bundle is unpacked.
#
#   scripts/gpu_bundle.sh [--out FILE] [--cudnn-frontend DIR] [--no-cudnn-frontend]
#
#   --out FILE             default build/gpu_bundle.tar.gz
#   --cudnn-frontend DIR   folder of cudnn_frontend.h (github.com/NVIDIA/cudnn-frontend, header-only);
#                          without it those of the system are taken where they are
#
# Takes the packages of scripts/install_deps.sh. The headers of cuBLASLt, NCCL and cuDNN go along where
# the CUDA toolkit here has them: a machine may have the libraries alone. Fails above 40 MiB.
set -euo pipefail
cd "$(dirname "$0")/.."

max_bytes=$((40 * 1024 * 1024))
out=build/gpu_bundle.tar.gz
frontend=
while (($#)); do
  case $1 in
    --out) out=$2; shift ;;
    --cudnn-frontend) frontend=$2; shift ;;
    --no-cudnn-frontend) frontend=none ;;
    *)
      sed -n '2,14s/^# \{0,1\}//p' "$0"
      [[ $1 == --help || $1 == -h ]] && exit 0
      exit 2
      ;;
  esac
  shift
done

cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
arch=$(gcc -print-multiarch)
system_lib=/usr/lib/$arch
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
bundle=$stage/gpu_bundle
mkdir -p "$bundle"/{include,cuda_include,lib/cmake}

need() {
  [[ -e $1 ]] && return
  echo "gpu_bundle: $1 is missing: run scripts/install_deps.sh" >&2
  exit 1
}
headers() { # FOLDER OF /usr/include, or a path, into include/
  local from=$1
  [[ $from == /* ]] || from=/usr/include/$from
  need "$from"
  cp -RL "$from" "$bundle/include/"
}
archive() {
  need "$1"
  cp -L "$1" "$bundle/lib/"
}
# The version of a Debian package, as CMake compares versions: 3.11.2 of 3.11.2-2.
version_of() { dpkg-query -W -f '${Version}' "$1" | sed -E 's/^[0-9]+://; s/^([0-9.]+).*/\1/'; }

# package NAME VERSION, its CMake code on the standard input; ${prefix} is the bundle there.
package() {
  local folder=$bundle/lib/cmake/$1
  mkdir -p "$folder"
  {
    echo 'get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)'
    cat
  } >"$folder/$1Config.cmake"
  cat >"$folder/$1ConfigVersion.cmake" <<CMAKE
set(PACKAGE_VERSION "$2")
if(NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
CMAKE
}
header_only() { # PACKAGE VERSION TARGET SUBFOLDER
  package "$1" "$2" <<CMAKE
if(NOT TARGET $3)
  add_library($3 INTERFACE IMPORTED)
  set_target_properties($3 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "\${prefix}/include$4")
endif()
CMAKE
}
# static_library TARGET ARCHIVE [LINK]: CMake code.
static_library() {
  cat <<CMAKE
if(NOT TARGET $1)
  add_library($1 STATIC IMPORTED)
  set_target_properties($1 PROPERTIES IMPORTED_LOCATION "\${prefix}/lib/$2"
                        INTERFACE_INCLUDE_DIRECTORIES "\${prefix}/include"
                        INTERFACE_LINK_LIBRARIES "${3:-}")
endif()
CMAKE
}

headers nlohmann
header_only nlohmann_json "$(version_of nlohmann-json3-dev)" nlohmann_json::nlohmann_json ""
headers CLI
header_only CLI11 "$(version_of libcli11-dev)" CLI11::CLI11 ""

# Eigen's dense part.
mkdir -p "$bundle/include/eigen3/Eigen/src"
need /usr/include/eigen3/Eigen/Dense
find /usr/include/eigen3/Eigen -maxdepth 1 -type f -exec cp {} "$bundle/include/eigen3/Eigen/" \;
cp -R /usr/include/eigen3/Eigen/src/. "$bundle/include/eigen3/Eigen/src/"
header_only Eigen3 "$(version_of libeigen3-dev)" Eigen3::Eigen /eigen3

headers yaml-cpp
archive "$system_lib/libyaml-cpp.a"
static_library yaml-cpp libyaml-cpp.a | package yaml-cpp "$(version_of libyaml-cpp-dev)"

cp -L /usr/include/pcre2.h "$bundle/include/"
archive "$system_lib/libpcre2-8.a"

headers gtest
headers gmock
for name in gtest gtest_main gmock; do archive "$system_lib/lib$name.a"; done
{
  echo 'find_package(Threads REQUIRED)'
  static_library GTest::gtest libgtest.a Threads::Threads
  static_library GTest::gtest_main libgtest_main.a GTest::gtest
  static_library GTest::gmock libgmock.a GTest::gtest
} | package GTest "$(version_of libgtest-dev)"

# The variant that keeps to plain threads; as an archive it needs no Fortran library.
openblas=$system_lib/openblas-pthread
need "$openblas/libopenblas.a"
archive "$openblas/libopenblas.a"
cp -L "/usr/include/$arch/openblas-pthread/"*.h "$bundle/include/"
package OpenBLAS "$(version_of libopenblas-dev)" <<'CMAKE'
set(OpenBLAS_INCLUDE_DIRS "${prefix}/include")
set(OpenBLAS_LIBRARIES "${prefix}/lib/libopenblas.a")
CMAKE

for name in cublasLt.h cublas_api.h nccl.h; do
  [[ -e $cuda/include/$name ]] && cp -L "$cuda/include/$name" "$bundle/cuda_include/"
done
if compgen -G "$cuda/include/cudnn*.h" >/dev/null; then
  cp -L "$cuda/include"/cudnn*.h "$bundle/cuda_include/"
fi
rm -f "$bundle/cuda_include/cudnn_frontend"*
if [[ -z $frontend ]]; then
  for folder in "$cuda/include" /usr/include /usr/local/include; do
    [[ -e $folder/cudnn_frontend.h ]] && frontend=$folder && break
  done
fi
if [[ -n $frontend && $frontend != none ]]; then
  need "$frontend/cudnn_frontend.h"
  cp -RL "$frontend"/cudnn_frontend* "$frontend"/cudnn_backend_base.h "$bundle/cuda_include/"
  frontend_note="with cudnn_frontend of $frontend"
else
  frontend_note="without cudnn_frontend: attention will run on kernels of our own"
fi

mkdir -p "$(dirname "$out")"
tar -C "$stage" -cf - gpu_bundle | gzip -9 >"$out"
size=$(stat -c %s "$out")
echo "$out: $((size / 1024)) KiB, $frontend_note"
if ((size > max_bytes)); then
  echo "gpu_bundle: that is more than $((max_bytes / 1024 / 1024)) MiB" >&2
  exit 1
fi
cat <<TEXT
There, in a clone of this repository with the bundle at $out:
  scripts/gpu_check.sh --bundle $out
or, to build by hand:
  tar -xzf $out -C build
  cmake --preset cuda-release -DCMAKE_PREFIX_PATH=\$PWD/build/gpu_bundle
TEXT
