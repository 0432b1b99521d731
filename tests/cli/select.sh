#!/bin/bash
# tl-select as a process: what it prints, keeps and refuses, and that it agrees with tl-train.
. "$(dirname "$0")/lib.sh"

pixels=raw,resize=32x32

setup() {
  pictures photos 20 cat dog owl
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
  network tiny_resnet other.pt --input 3x32x32 --random-statistics --seed 9
}

# experiment CANDIDATES [MORE]: experiment.json over net.pt, with more fields.
experiment() {
  cat >experiment.json <<END
{"format": "tl-experiment", "version": 1, ${2:-}
 "models": [{"name": "net", "path": "${NET:-$SHARED/net.pt}", "preprocess": "$pixels"}],
 "defaults": {"epochs": 4, "lr": 0.01}, "candidates": $1}
END
}

# await_results N: until so many candidates of a run in the background have a result, half a minute at most.
await_results() {
  for _ in $(seq 600); do
    (($(find runs/trials -name result.json 2>/dev/null | wc -l) == $1)) && break
    sleep 0.05
  done
}

selected() { run tl-select experiment.json "$SHARED/photos" -o runs "$@"; }

test_a_table_for_people_and_json_for_programs() {
  experiment '[{"head": ["linear", "mlp:8"], "features": [null, "layer2"]}]'
  selected
  expect_status 0
  expect_stdout '^rank +candidate +accuracy\* +balanced +loss +epoch +time +id$'
  (($(wc -l <out) == 5)) || fail "not a line for each candidate: $(<out)"
  selected --json
  expect_status 0
  expect_json out "len(d['candidates']) == 4 and all(c['cached'] for c in d['candidates']) and d['best'] == d['candidates'][0]['id']"
  expect_json runs/leaderboard.json "d['format'] == 'tl-leaderboard'"
  [[ -s runs/best/model.pt && -s runs/reuse-plan.json ]] || fail "no model or plan in runs"
  expect_no_leftovers runs
}

test_what_a_killed_selection_left_half_written_is_removed() {
  experiment '[{"head": ["linear", "mlp:8"]}, {"train": "^layer4"}]'
  selected --executor make
  expect_status 0
  leave_temporaries runs
  selected --executor make
  expect_status 0
  expect_no_leftovers runs
}

test_explain_tells_what_is_shared() {
  experiment '[{"head": ["linear", "mlp:8"]}, {"features": "layer2"}, {"train": "^layer4"}]'
  selected --explain --json --materialise all
  expect_status 0
  expect_stderr '^4 candidates share a graph of [0-9]+ values; 3 of them are kept for 60 records, extracted in 1 pass; '
  expect_stderr '^frozen layers: .* once; .* if every candidate ran them in every epoch$'
  expect_stderr '^predicted: .*, of which extraction .* own steps '
  expect_stderr '^with nothing shared, every candidate from the records in each epoch: .* times as long'
  expect_stderr '^with everything stored that a candidate reads: .* times as long'
  expect_stderr '-> 2 candidates$'
  expect_stderr '^group 1: 2 candidates in one pass, loads '
  expect_json runs/reuse-plan.json "d['shared_flops'] < 0.2 * d['separate_flops'] and d['predicted_seconds']['plan'] < d['predicted_seconds']['nothing_shared'] and len(d['groups']) == 3"
  selected -q
  expect_quiet
}

# of_epochs RUN: training and validation loss of each epoch of tl-train.
of_epochs() {
  "$PYTHON" -c 'import json, sys
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    if line["event"] == "epoch": print(line["train"]["loss"], line["validation"]["loss"])' "$1"
}

# Layers are trained by SGD here: Adam divides by gradients that are 0 but for rounding, and so enlarges it.
test_results_are_those_of_tl_train() {
  experiment '[{"head": "linear", "seed": [7, 3]}, {"head": "mlp:8", "optimizer": "sgd"}, {"train": "^layer4", "optimizer": "sgd", "schedule": "cosine"},
               {"train": "^", "optimizer": "sgd"}]' '"seed": 7, "metric": "balanced-accuracy", "validation": 0.3,'
  selected --json
  expect_status 0
  cp out board.json
  for options in "--head linear --seed 7" "--head linear --seed 3" "--head mlp:8 --optimizer sgd --seed 7" \
    "--head linear --train ^layer4 --optimizer sgd --schedule cosine --seed 7" \
    "--head linear --train ^ --optimizer sgd --seed 7"; do
    # shellcheck disable=SC2086 # several words
    must tl-train --model "$SHARED/net.pt" --data "$SHARED/photos" --preprocess "$pixels" --lr 0.01 --epochs 4 \
      --monitor balanced-accuracy --validation 0.3 --by-content $options -o run --force
    of_epochs run >alone
    "$PYTHON" - "$options" <<'END' || fail "tl-train $options does not agree with tl-select"
import glob, json, sys
wanted = [tuple(map(float, line.split())) for line in open("alone")]
for path in glob.glob("runs/trials/*/result.json"):
    found = [(e["loss"], e["validation_loss"]) for e in json.load(open(path))["history"]]
    if len(found) == len(wanted) and all(abs(a - b) <= 1e-5 * max(1, abs(a)) for x, y in zip(wanted, found) for a, b in zip(x, y)):
        sys.exit(0)
sys.exit(1)
END
  done
}

test_the_best_model_is_as_tl_train_writes_it() {
  experiment '[{"head": ["linear", "mlp:8"]}]'
  selected
  expect_status 0
  must "$PYTHON" - <<'END'
import json, torch
extra = {"tl.json": ""}
model = torch.jit.load("runs/best/model.pt", _extra_files=extra)
card = json.loads(extra["tl.json"])
assert card["format"] == "tl-model" and card["classes"] == ["cat", "dog", "owl"], card
assert card["preprocess"]["resize"] == [32, 32], card
assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 3)
END
}

test_new_records_cost_only_themselves() {
  cp -r "$SHARED/photos" photos
  experiment '[{"head": ["linear", "mlp:8"]}]'
  must tl-select experiment.json photos -o runs --json --materialise all
  pictures more 23 cat
  mv more/cat/02[0-2].png photos/cat/
  mv photos/dog/001.png photos/owl/moved.png
  rm photos/owl/002.png
  must tl-select experiment.json photos -o runs --json --materialise all
  expect_json out "d['features'][0]['written'] == 3 and [d['features'][0]['changes'][k] for k in ('added', 'relabelled', 'removed', 'unchanged')] == [3, 1, 1, 58]"
  expect_json out "not any(c['cached'] for c in d['candidates'])"
  must tl-select experiment.json photos -o runs --json --materialise all
  expect_json out "d['features'][0]['written'] == 0 and all(c['cached'] for c in d['candidates'])"
}

test_files_with_the_same_backbone_share_it() {
  network tiny_resnet sibling.pt --input 3x32x32 --random-statistics
  cat >experiment.json <<END
{"format": "tl-experiment", "version": 1,
 "models": [{"name": "net", "path": "$SHARED/net.pt", "preprocess": "$pixels"},
            {"name": "sibling", "path": "sibling.pt", "preprocess": "$pixels"},
            {"name": "other", "path": "$SHARED/other.pt", "preprocess": "$pixels"}],
 "candidates": [{"epochs": 1}]}
END
  selected --json --materialise all
  expect_status 0
  # net and sibling are the same network, so the same candidate.
  expect_stderr 'candidate sibling/linear/adam-lr0.001 is the same as net/linear/adam-lr0.001; it is tried once'
  expect_json runs/reuse-plan.json "len(d['sets']) == 2 and len(d['passes']) == 1"
}

test_a_failed_candidate_is_last() {
  experiment '[{"head": "mlp:8", "optimizer": "sgd", "lr": 1e38}, {"head": "linear"}]'
  selected --json
  expect_status 0
  expect_stderr 'warning: net/mlp:8/sgd-lr1e\+38: .*not a finite number'
  expect_json out "[c['status'] for c in d['candidates']] == ['ok', 'failed'] and 'finite' in d['candidates'][1]['failure']"
  experiment '[{"head": "mlp:8", "optimizer": "sgd", "lr": 1e38}]'
  selected
  expect_status 1
  expect_stderr 'error: every candidate failed'
  expect_stdout 'failed: '
  expect_absent runs/best/model.pt
}

test_damaged_pictures() {
  cp -r "$SHARED/photos" photos
  : >photos/cat/empty.png
  experiment '[{"head": "linear"}]'
  run tl-select experiment.json photos -o runs
  expect_status 1
  expect_stderr 'cat/empty.png'
  run tl-select experiment.json photos -o runs --keep-going --json --materialise all
  expect_status 3
  expect_stderr 'warning: skipped cat/empty.png: '
  expect_json out "d['inputs'] == 61 and [s['id'] for s in d['skipped']] == ['cat/empty.png'] and d['features'][0]['records'] == 60"
}

test_two_at_once() {
  experiment '[{"head": "linear"}]'
  selected
  expect_status 0
  # Holds the lock as a running process does.
  "$PYTHON" - <<'END' &
import fcntl, os, time
lock = open("runs/.lock", "r+")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.truncate(0)
lock.write("12345")
lock.flush()
open("held", "w").close()
time.sleep(60)
END
  holder=$!
  until [[ -e held ]]; do sleep 0.05; done
  selected
  expect_status 1
  expect_error 'runs: process 12345 is writing here'
  kill "$holder"
  wait "$holder" 2>/dev/null
  selected
  expect_status 0
  expect_stderr 'process 12345 did not finish here'
}

test_a_kill_in_training_keeps_what_is_done() {
  experiment '[{"head": "linear", "seed": [1, 2, 3, 4, 5, 6]}, {"train": ".*", "epochs": 500, "patience": 400}]'
  setsid tl-select experiment.json "$SHARED/photos" -o runs --materialise all >out 2>err &
  pid=$!
  await_results 6
  kill -9 -- -"$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  experiment '[{"head": "linear", "seed": [1, 2, 3, 4, 5, 6, 7]}]'
  selected --json --materialise all
  expect_status 0
  expect_stderr "process $pid did not finish here"
  expect_json out "sum(c['cached'] for c in d['candidates']) == 6 and d['features'][0]['written'] == 0"
}

# The losses of every candidate in RUNS, against those in WANTED.
expect_same_losses() {
  "$PYTHON" - "$1" "$2" <<'END' || fail "$2 has other losses than $1"
import glob, json, os, sys
def losses(folder):
    trials = [json.load(open(path)) for path in glob.glob(folder + "/trials/*/result.json")]
    return {t["id"]: [(e["loss"], e["validation_loss"]) for e in t["history"]] if t["status"] == "ok" else None for t in trials}
wanted, found = losses(sys.argv[1]), losses(sys.argv[2])
assert wanted and wanted.keys() == found.keys(), (wanted.keys(), found.keys())
for id, epochs in wanted.items():
    assert (epochs is None) == (found[id] is None) and len(epochs or []) == len(found[id] or []), (id, epochs, found[id])
    for x, y in zip(epochs or [], found[id] or []):
        assert all(abs(a - b) <= 1e-5 * max(1, abs(a)) for a, b in zip(x, y)), (id, x, y)
END
}

# same_results CANDIDATES LARGEST OPTIONS...: with each of these options, candidates get the losses of each trained alone from the
# records; without features on disk, LARGEST of them train in one pass.
same_results() {
  experiment "$1"
  must tl-select experiment.json "$SHARED/photos" -o alone --materialise none --no-fuse
  expect_json alone/reuse-plan.json "d['sets'] == [] and all(len(g['candidates']) == 1 and g['records'] for g in d['groups'])"
  for options in "${@:3}" "--materialise none"; do
    # shellcheck disable=SC2086 # several words
    must tl-select experiment.json "$SHARED/photos" -o shared $options
    expect_same_losses alone shared
    cp shared/reuse-plan.json plan.json
    rm -r shared
  done
  expect_json plan.json "max(len(g['candidates']) for g in d['groups']) >= $2"
}

test_no_option_of_the_plan_changes_a_result() {
  same_results '[{"head": ["linear", "mlp:8"], "features": [null, "layer2"], "batch": [16, 32], "optimizer": "sgd"},
    {"lr": 10, "epochs": 9, "patience": 1, "optimizer": "sgd"}, {"lr": 1e38, "optimizer": "sgd", "head": "mlp:8"},
    {"train": "^layer4", "optimizer": "sgd"}]' 9 "" "--materialise all" "--no-fuse" "--disk-budget 20k" "--memory-budget 1k"
  expect_json alone/leaderboard.json "sum(c['status'] == 'failed' for c in d['candidates']) == 1"
}

test_no_option_changes_a_result_of_a_transformer() {
  network tiny_vit vit.pt --input 3x32x32
  NET=$PWD/vit.pt
  same_results '[{"head": ["linear", "mlp:8"], "batch": [16, 32], "optimizer": "sgd"}, {"lr": [3, 10], "epochs": 9, "patience": 1, "optimizer": "sgd"},
    {"lr": 1e38, "optimizer": "sgd", "head": "mlp:8"}, {"train": "encoder_layer_1", "optimizer": "sgd"}]' 7 ""
}

test_features_stay_within_the_disk_budget() {
  cp -r "$SHARED/photos" photos
  experiment '[{"features": ["layer1", "layer2", "layer3", null], "epochs": 20}, {"train": ".*", "epochs": 20}]'
  must tl-select experiment.json photos -o runs
  for budget in 30000 100000; do
    run tl-select experiment.json photos -o runs --disk-budget "$budget"
    expect_status 0
    bytes=$(find runs/features -type f -printf '%s\n' 2>/dev/null | awk '{ sum += $1 } END { print sum + 0 }')
    ((bytes <= budget)) || fail "$bytes bytes of features, not $budget"
    expect_json runs/reuse-plan.json "d['disk_budget'] == $budget"
  done
  run tl-select experiment.json photos -o runs --disk-budget 10k --materialise all
  expect_status 1
  expect_error 'more than the disk budget of 10'
  selected --disk-budget much
  expect_status 2
}

test_further_cycles_under_a_plan() {
  cp -r "$SHARED/photos" photos
  pictures more 40 cat dog owl
  experiment '[{"head": ["linear", "mlp:8"], "features": [null, "layer2"], "optimizer": "sgd"}]'
  for cycle in 20 25 40; do
    for class in cat dog owl; do
      for ((i = 20; i < cycle; ++i)); do cp "more/$class/$(printf %03d "$i").png" "photos/$class/"; done
    done
    must tl-select experiment.json photos -o runs
    must tl-select experiment.json photos -o fresh --materialise none
    expect_same_losses fresh runs
    rm -r fresh
  done
  expect_json runs/reuse-plan.json "d['records'] == 120 and d['expected_records'] == 120"
  pictures more 41 cat
  cp more/cat/040.png photos/cat/
  must tl-select experiment.json photos -o runs
  expect_json runs/reuse-plan.json "d['records'] == 121 and d['expected_records'] == 240"
}

test_a_kill_in_the_middle_of_a_fused_group() {
  experiment '[{"lr": [0.1, 0.2], "epochs": 2}, {"lr": 0.3, "epochs": 1000000}]'
  setsid tl-select experiment.json "$SHARED/photos" -o runs --materialise all >out 2>err &
  pid=$!
  await_results 2
  expect_json runs/reuse-plan.json "len(d['groups']) == 1"
  kill -9 -- -"$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  experiment '[{"lr": [0.1, 0.2], "epochs": 2}, {"lr": 0.3, "epochs": 3}]'
  selected --json --materialise all
  expect_status 0
  expect_json out "sum(c['cached'] for c in d['candidates']) == 2 and all(c['status'] == 'ok' for c in d['candidates'])"
  expect_json out "sorted(c['epochs'] for c in d['candidates']) == [2, 2, 3]"
}

test_an_interrupt_stops_it() {
  experiment '[{"train": ".*", "epochs": 100000}]'
  setsid tl-select experiment.json "$SHARED/photos" -o runs >out 2>err &
  pid=$!
  until [[ -e runs/reuse-plan.json ]]; do sleep 0.05; done
  sleep 1
  kill -INT -- -"$pid"
  status=0
  wait "$pid" || status=$?
  COMMAND="tl-select with SIGINT"
  expect_status 130
  expect_no_leftovers runs
}

test_wrong_usage() {
  experiment '[{"head": "linear"}]'
  run tl-select experiment.json -o runs
  expect_status 2
  run tl-select experiment.json "$SHARED/photos"
  expect_status 2
  run tl-select - - -o runs
  expect_status 2
  expect_error 'stdin'
  selected --threads 0
  expect_status 2
  mkdir photos
  cp -r "$SHARED/photos/cat" "$SHARED/photos/dog" photos
  run tl-select experiment.json photos -o photos/runs
  expect_status 2
  expect_error 'inside the data set'
  expect_absent photos/runs
}

test_wrong_experiments() {
  refused() {
    experiment "$1" "${2:-}"
    selected
    expect_status 1
    expect_error "$3"
    expect_absent runs
  }
  refused '[{"learning_rate": 0.1}]' '' 'experiment.json: /candidates/0: unknown key "learning_rate"'
  refused '[{"headd": "linear"}]' '' "did you mean 'head'\\?"
  refused '[{}]' '"metrics": "loss",' "unknown key \"metrics\": did you mean 'metric'\\?"
  refused '[{"features": "layer9"}]' '' '/candidates/0 \(net/layer9/linear/adam-lr0.01\): .*layer9'
  refused '[{"train": "^nothing$"}]' '' 'matches none'
  refused '[{"optimizer": "adam", "momentum": 0.5}]' '' '/candidates/0: momentum'
  refused '[{"lr": []}]' '' '/candidates/0/lr'
  refused '[]' '' '/candidates'
  echo '{"format": "tl-plan", "version": 1}' >experiment.json
  selected
  expect_status 1
  expect_error 'this is a tl-plan document|unknown key'
  echo '{' >experiment.json
  selected
  expect_status 1
  expect_error 'experiment.json:'
}

test_stdin_and_data_options() {
  experiment '[{"head": "linear"}]' '"data": {"classes": ["owl", "cat"], "limit": 12},'
  must tl-select - "$SHARED/photos" -o runs --json <experiment.json
  expect_json out "d['experiment'] == 'stdin' and d['inputs'] == 24 and d['classes'] == ['owl', 'cat']"
}

main "$@"
