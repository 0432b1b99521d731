# shellcheck shell=bash
# How the scripts build. Sourced by scripts/test and scripts/quickstart; never run by itself.

# configure PRESET [OPTION...]: a build from nothing compiles many sources as one, in half the time; a folder that is
# there already stays as it is, for whoever changes one source at a time.
configure() {
  local folder=build-$1 unity=() # as CMakePresets.json names them
  [[ $1 != release ]] || folder=build
  [[ -e $folder/CMakeCache.txt ]] || unity=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16)
  cmake --preset "$1" "${unity[@]}" "${@:2}"
}
