#!/bin/bash
# Every command that a man page, --help or the README shows is run as it stands, where the files that it
# names exist: photos/ (also as /photos on the machine "storage"), resnet18.pt, there.json, here.json,
# link.json, plan.json, features/, run/, runs/, last/ and experiment.json. "ssh storage" is a shell on this machine.
. "$(dirname "$0")/lib.sh"

setup() {
  mkdir bin start
  cat >bin/ssh <<'END'
#!/bin/bash
# ssh storage COMMAND...: joins its arguments and lets a shell run them, as ssh does.
[[ $1 == storage ]] || { echo "ssh: no machine $1" >&2; exit 255; }
shift
command="$*"
exec bash -c "${command//\/photos/photos}"
END
  chmod +x bin/ssh
  cd start || exit 1
  pictures photos 8 cat dog owl
  network tiny_resnet18 resnet18.pt --input 3x64x64
  must tl-profile model resnet18.pt --data photos --seconds 2 -o there.json
  cp there.json here.json
  must tl-profile link --via env --seconds 0.2 -o link.json
  must tl-split --storage there.json --link link.json --head linear -o plan.json
  must tl-extract --plan plan.json photos -o features
  must tl-train --plan plan.json features -o run --epochs 2
  mkdir last && cp run/metrics.jsonl last
  cat >experiment.json <<'END'
{"format": "tl-experiment", "version": 1,
 "models": [{"name": "resnet18", "path": "resnet18.pt", "preprocess": "imagenet"}],
 "candidates": [{"head": ["linear", "mlp:16"], "epochs": 2}]}
END
  must tl-select experiment.json photos -o runs
}

# run_script FOLDER SCRIPT: as a user would, in FOLDER.
run_script() {
  status=0
  (cd "$1" && PATH=$SHARED/bin:$PATH bash -e -o pipefail -c "$2") >out 2>err </dev/null || status=$?
  COMMAND=$2
  expect_status 0
}

# each_example KIND FILE: every example of the document by itself.
each_example() {
  local scripts script
  mapfile -d '' scripts < <("$PYTHON" "$TL_SOURCE/tests/support/examples.py" "$1" <"$2")
  ((${#scripts[@]})) || fail "no examples found"
  for script in "${scripts[@]}"; do
    rm -rf work
    cp -r "$SHARED/start" work
    [[ $script == *--resume* ]] || rm -rf work/run # made by the example, where it is not continued
    run_script work "$script"
  done
}

of_page() { each_example man "$TL_SOURCE/man/$1.1"; }
of_help() {
  "$1" --help >help || fail "$1 --help failed"
  each_example help help
}

test_page_of_tl_profile() { of_page tl-profile; }
test_page_of_tl_split() { of_page tl-split; }
test_page_of_tl_extract() { of_page tl-extract; }
test_page_of_tl_train() { of_page tl-train; }
test_page_of_tl_select() { of_page tl-select; }
test_help_of_tl_profile() { of_help tl-profile; }
test_help_of_tl_split() { of_help tl-split; }
test_help_of_tl_extract() { of_help tl-extract; }
test_help_of_tl_train() { of_help tl-train; }
test_help_of_tl_select() { of_help tl-select; }

# The tour is one story: it starts with a network and photos, and each step goes on from the one before.
test_readme() {
  mkdir work
  cp -r "$SHARED"/start/{photos,resnet18.pt} work
  "$PYTHON" "$TL_SOURCE/tests/support/examples.py" markdown <"$TL_SOURCE/README.md" | grep -zv scripts/ >scripts
  mapfile -d '' scripts <scripts
  ((${#scripts[@]} >= 4)) || fail "the tour was not found"
  for script in "${scripts[@]}"; do run_script work "$script"; done
}

main "$@"
