# shellcheck shell=bash
# shellcheck disable=SC2034 # the lists are used by the scripts that source this
# The Debian packages that building, testing and the quickstart need, in one place, and the function
# that installs the missing ones. Sourced by scripts/test and scripts/quickstart; never run by itself.

TL_BUILD_PACKAGES=(
  cmake ninja-build g++ ccache pkg-config
  libtorch-dev
  libopenblas0 # LibTorch calls whatever libblas.so.3 is installed; the reference BLAS is 30 times slower
  libopencv-dev # the modules' own packages lack OpenCVConfig.cmake
  libjpeg-dev libpng-dev libtiff-dev zlib1g-dev libarchive-dev
  libcurl4-openssl-dev libpugixml-dev libsqlite3-dev
  libcli11-dev nlohmann-json3-dev libvalijson-dev libxxhash-dev libzstd-dev coinor-libcbc-dev
  doctest-dev
)
TL_TEST_PACKAGES=(
  python3 python3-numpy python3-pil python3-jsonschema python3-torch python3-torchvision
  clang-format shellcheck mandoc zsh zstd openssh-server strace
)
# An object store on one machine, for tests/cli/object.sh: scripts/swift.
TL_SWIFT_PACKAGES=(
  swift-proxy swift-account swift-container swift-object memcached curl
)
# A cluster on one machine, for tests/cli/slurm.sh: scripts/slurm.
TL_SLURM_PACKAGES=(
  slurm-wlm munge
)
TL_QUICKSTART_PACKAGES=(
  python3 python3-torchvision dataset-fashion-mnist
)

# missing_packages NAME...: those that are not installed, one a line.
missing_packages() {
  local name
  for name in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed* ]] || printf '%s\n' "$name"
  done
}

# apt_get ARGUMENT...: apt-get without questions, waiting for another apt to finish.
apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

# ensure_packages NAME...: installs what is missing. Needs root only when something is missing.
# Returns 1 after one line on stderr when it cannot.
ensure_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "error: this script sets up Debian 12 and finds no dpkg and apt-get here; install the" \
      "packages listed in scripts/lib/packages.sh in your system's way" >&2
    return 1
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@" | sort -u)
  ((${#missing[@]})) || return 0
  if [[ $(id -u) != 0 ]]; then
    echo "error: not root; run as root once: apt-get install --no-install-recommends ${missing[*]}" >&2
    return 1
  fi
  echo "installing ${missing[*]}"
  local log attempt
  log=$(mktemp)
  for attempt in 1 2 3; do
    if { apt_get update && apt_get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
      rm -f "$log"
      return 0
    fi
    echo "apt-get failed (attempt $attempt of 3): $(grep -m1 '^E:' "$log" || tail -n1 "$log")" >&2
    ((attempt == 3)) || sleep 5
  done
  echo "error: apt-get could not install ${missing[*]}; its output is in $log" >&2
  return 1
}
