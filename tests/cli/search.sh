#!/bin/bash
# Searches of tl-select as a process: who goes on, what survives a kill, and what survivors have learned.
. "$(dirname "$0")/lib.sh"

setup() {
  pictures photos 16 cat dog owl
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
}

# experiment SEARCH [CANDIDATES]: experiment.json over net.pt.
experiment() {
  local candidates='[{"lr": [0.03, 0.01, 0.003, 0.001], "schedule": "cosine", "head": ["linear", "mlp:8"]}]'
  local search=
  [[ -z $1 ]] || search=", \"search\": $1"
  cat >experiment.json <<END_OF_JSON
{"format": "tl-experiment", "version": 1, "models": [{"name": "net", "path": "$SHARED/net.pt", "preprocess": "raw,resize=32x32"}],
 "candidates": ${2:-$candidates}$search}
END_OF_JSON
}

selected() { run tl-select experiment.json "$SHARED/photos" -o "${RUNS:-runs}" --json; }

# same_survivors OF: the candidates of runs that got to the end have the figures of those in OF.
same_survivors() {
  "$PYTHON" - runs "$1" <<'END_OF_PYTHON' || fail "survivors differ from a straight run"
import glob, json, os, sys
found = 0
for path in glob.glob(sys.argv[1] + "/trials/*/result.json"):
    survivor = json.load(open(path))
    if survivor["epochs"] < 8: continue
    straight = json.load(open(os.path.join(sys.argv[2], "trials", survivor["id"], "result.json")))
    for a, b in zip(survivor["history"], straight["history"]):
        assert all(abs(a[k] - b[k]) <= 1e-5 * max(1, abs(b[k])) for k in b), (a, b)
    assert len(survivor["history"]) == len(straight["history"])
    found += 1
sys.exit(found == 0)
END_OF_PYTHON
}

halving='{"strategy": "halving", "eta": 2, "min_epochs": 2, "max_epochs": 8}'

test_survivors_have_what_a_straight_run_gives() {
  experiment "$halving"
  selected
  expect_status 0
  expect_json out "sorted(c['epochs'] for c in d['candidates']) == [2, 2, 2, 2, 4, 4, 8, 8]"
  cp experiment.json searched.json
  experiment '' '[{"lr": [0.03, 0.01, 0.003, 0.001], "schedule": "cosine", "head": ["linear", "mlp:8"], "epochs": 8}]'
  RUNS=straight selected
  expect_status 0
  same_survivors straight
  mv searched.json experiment.json
  selected # again: nothing is trained
  expect_status 0
  expect_stderr '0 candidates trained'
}

test_a_killed_search_goes_on() {
  experiment "$halving"
  selected
  expect_status 0
  json out '[(c["id"], c["epochs"], c["score"]) for c in d["candidates"]]' >whole
  RUNS=killed
  tl-select experiment.json "$SHARED/photos" -o killed --json >out 2>err &
  local pid=$!
  until compgen -G 'killed/trials/*/result.json' >found || ! kill -0 "$pid" 2>kill_err; do sleep 0.02; done
  kill -9 "$pid" 2>kill_err
  wait "$pid" 2>kill_err
  selected
  expect_status 0
  json out '[(c["id"], c["epochs"], c["score"]) for c in d["candidates"]]' >resumed
  expect_same whole resumed
  expect_no_leftovers killed
}

test_hyperband_and_random_draw_from_ranges() {
  local space='[{"lr": {"log_uniform": [0.001, 0.1]}, "head": {"choice": ["linear", "mlp:8"]}}]'
  experiment '{"strategy": "hyperband", "max_epochs": 9, "seed": 5}' "$space"
  selected
  expect_status 0
  expect_json out "len(d['candidates']) == 9 + 5 + 3 and len({c['options']['lr'] for c in d['candidates']}) == 17"
  experiment '{"strategy": "random", "samples": 3}' "${space/\"head\"/\"epochs\": 2, \"head\"}"
  selected
  expect_status 0
  expect_json out "[c['epochs'] for c in d['candidates']] == [2, 2, 2]"
  experiment '{"strategy": "random", "sample": 3}' "$space"
  selected
  expect_status 1
  expect_error "experiment.json: /search: unknown key \"sample\": did you mean 'samples'\?"
}

test_schemes_of_several_values_blocks_and_adapters() {
  experiment '' '[{"epochs": 2, "features": ["layer2+layer4", "sum:layer3+layer3", "layer4"]}]'
  selected
  expect_status 1
  expect_error "names 'layer3.0' twice"
  experiment '' '[{"epochs": 2, "optimizer": "sgd", "features": "layer2+layer4"}, {"epochs": 2, "optimizer": "sgd", "unfreeze": [1, 2]},
                  {"epochs": 2, "optimizer": "sgd", "adapters": ["4", "4:1"]}]'
  selected
  expect_status 0
  expect_json out "len(d['candidates']) == 5 and all(c['status'] == 'ok' for c in d['candidates'])"
  for options in "--features layer2+layer4" "--unfreeze 2" "--adapters 4:1"; do
    # shellcheck disable=SC2086 # several words
    must tl-train --model "$SHARED/net.pt" --data "$SHARED/photos" --preprocess raw,resize=32x32 --head linear $options \
      --epochs 2 --optimizer sgd -o run --force --by-content
    "$PYTHON" - "$options" <<'END_OF_PYTHON' || fail "tl-train $options does not agree with tl-select"
import glob, json, sys
wanted = [(l["train"]["loss"], l["validation"]["loss"]) for l in map(json.loads, open("run/metrics.jsonl")) if l["event"] == "epoch"]
for path in glob.glob("runs/trials/*/result.json"):
    found = [(e["loss"], e["validation_loss"]) for e in json.load(open(path))["history"]]
    if all(abs(a - b) <= 1e-5 * max(1, abs(a)) for x, y in zip(wanted, found) for a, b in zip(x, y)): sys.exit(0)
sys.exit(1)
END_OF_PYTHON
  done
}

main "$@"
