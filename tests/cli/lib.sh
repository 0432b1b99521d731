# shellcheck shell=bash
# The harness of the command-line tests. A theme is one file:
#
#   . "$(dirname "$0")/lib.sh"
#   setup() { ... }       # optional, once, in $SHARED; what all its tests read
#   test_NAME() { ... }   # each in its own process and its own empty folder, stopped at the first failure
#   main "$@"             # all tests, or those named on the command line
#
# TL_BIN is the folder of the programs, set by ctest; without it, build/bin of this tree.
set -uo pipefail
export LC_ALL=C.UTF-8

TL_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TL_BIN=${TL_BIN:-$TL_SOURCE/build/bin}
PATH=$TL_BIN:$PATH
PYTHON=/usr/bin/python3 # Debian's, which has Debian's modules
# shellcheck disable=SC2034 # for the tests
PROGRAMS=(tl-profile tl-split tl-extract tl-train tl-select)

fail() {
  printf '    %s\n' "$@" >&2
  local frame=0 line function file
  while read -r line function file < <(caller $frame); do
    [[ $function == test_* || $function == setup ]] && echo "    at ${file##*/}:$line in $function" >&2
    ((++frame))
  done
  exit 1
}

# run COMMAND...: runs it with stdin as given; leaves $status and the files out and err.
run() {
  COMMAND="$*"
  status=0
  "$@" >out 2>err || status=$?
}

# run_shell 'PIPELINE': the same for a line of bash.
run_shell() { run bash -o pipefail -c "$1"; }

# must COMMAND...: run, and it succeeds.
must() {
  run "$@"
  expect_status 0
}

expect_status() {
  [[ $status == "$1" ]] || fail "status $status instead of $1: $COMMAND" "stderr: $(head -c 2000 err)"
}

# Nothing at all on stderr.
expect_quiet() { [[ ! -s err ]] || fail "stderr should be empty: $COMMAND" "stderr: $(head -c 2000 err)"; }

# One error line on stderr, from a program of ours, that matches the regular expression.
expect_error() {
  [[ $(wc -l <err) == 1 ]] || fail "stderr should be one line: $COMMAND" "stderr: $(head -c 2000 err)"
  [[ $(<err) =~ ^tl-[a-z]+:\ error:\  ]] || fail "not an error line of ours: $(<err)"
  expect_stderr "$1"
}

# Some line of stderr (of stdout) matches the extended regular expression.
expect_stderr() { grep -Eq -- "$1" err || fail "no line of stderr matches '$1': $COMMAND" "stderr: $(head -c 2000 err)"; }
expect_stdout() { grep -Eq -- "$1" out || fail "no line of stdout matches '$1': $COMMAND" "stdout: $(head -c 2000 out)"; }

expect_same() { cmp -s -- "$1" "$2" || fail "$1 and $2 differ"; }
expect_absent() { [[ ! -e $1 ]] || fail "$1 should not exist"; }

# No temporary file was left below the folder.
expect_no_leftovers() {
  local found
  found=$(find "$1" -name '.*.??????' -print -quit)
  [[ -z $found ]] || fail "left behind: $found"
}

# leave_temporaries FOLDER: what a process killed while it wrote one of the files there, or below, would have left;
# SQLite keeps its own files whole.
leave_temporaries() {
  local path made=0
  while IFS= read -r path; do
    echo torn >"${path%/*}/.${path##*/}.aB3dE6"
    made=1
  done < <(find "$1" -type f -not -name '.*' -not -name '*.db')
  ((made)) || fail "no files in $1"
}

# expect_json FILE EXPRESSION: a Python expression over `d`, the document, is true.
expect_json() {
  "$PYTHON" -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2" ||
    fail "not true of $1: $2"
}

# json FILE EXPRESSION: prints it.
json() { "$PYTHON" -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }

# pictures FOLDER COUNT [CLASS...]: COUNT learnable pictures of each class, in a sub-folder each.
pictures() { "$PYTHON" "$TL_SOURCE/tests/support/make_pictures.py" "$@" || fail "make_pictures.py failed"; }

# network NAME FILE [OPTION...]: a network of scripts/export_torchvision.py.
network() {
  local name=$1 file=$2
  shift 2
  "$TL_SOURCE/scripts/export_torchvision.py" "$name" -o "$file" "$@" || fail "export_torchvision.py failed"
}

main() {
  local tests name failed=0
  TOP=$(mktemp -d)
  trap 'chmod -R u+w "$TOP"; rm -rf "$TOP"' EXIT
  export SHARED=$TOP/shared
  mkdir "$SHARED"
  if declare -F setup >/dev/null; then
    (cd "$SHARED" && setup) || { echo "FAILED setup"; exit 1; }
  fi
  tests=("$@")
  ((${#tests[@]})) || mapfile -t tests < <(declare -F | sed -n 's/^declare -f \(test_.*\)$/\1/p')
  for name in "${tests[@]}"; do
    mkdir "$TOP/$name"
    if (cd "$TOP/$name" && "$name"); then
      echo "ok     $name"
    else
      echo "FAILED $name"
      failed=1
    fi
  done
  exit $failed
}
