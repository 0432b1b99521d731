# shellcheck shell=bash
# How the scripts build. Sourced by scripts/test and scripts/quickstart; never run by itself.

# configure FOLDER PRESET [OPTION...]: configures the preset's FOLDER. A build from nothing compiles many sources as
# one, in half the time; a folder that is there already stays as it is, for whoever changes one source at a time.
configure() {
  local unity=()
  [[ -e $1/CMakeCache.txt ]] || unity=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16)
  cmake --preset "$2" "${unity[@]}" "${@:3}"
}
