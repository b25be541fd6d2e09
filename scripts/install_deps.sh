#!/usr/bin/env bash
# Installs what building and testing needs on Debian 12 or a relative of it.
#
#   scripts/install_deps.sh          compiler, CMake, libraries, a browser for the tests of reports,
#                                    clang for fuzzing
#   scripts/install_deps.sh --dev    also clang-format, clang-tidy, ccache, Google Benchmark
#
# Does nothing, quickly, when all of it is there.
set -euo pipefail

packages=(g++ cmake ninja-build git ca-certificates python3 libopenblas-dev libyaml-cpp-dev
          libcli11-dev nlohmann-json3-dev libeigen3-dev libpcre2-dev libsentencepiece-dev
          libgloo-dev libgtest-dev libgmock-dev
          libjs-chart.js chromium clang libclang-rt-dev)
# The tests' stand-in for a GPU switches between threads of a block; elsewhere it does so in
# assembly of its own.
[[ $(uname -m) == x86_64 ]] || packages+=(libboost-context-dev)
case "${1:-}" in
  "") ;;
  --dev) packages+=(clang-format clang-tidy ccache libbenchmark-dev) ;;
  *)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install_deps: no apt on this system; install these yourself: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null || true)
  [[ $status == *installed* && $status != *not-installed* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "install_deps: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install_deps: needs root to run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install_deps: installing ${missing[*]}"
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 "$@"
}
apt update
apt install --no-install-recommends "${missing[@]}"
echo "install_deps: done"
