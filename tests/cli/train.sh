#!/bin/bash
# tl-train as a process: what it reads and writes, what it refuses, how it stops.
. "$(dirname "$0")/lib.sh"

setup() {
  pictures photos 20 cat dog owl
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
  network tiny_resnet other.pt --input 3x32x32 --random-statistics --seed 9
  must tl-profile model "$PWD/net.pt" --data photos --preprocess "$pixels" --seconds 1 -o profile.json
  must tl-split --storage profile.json --link 10Mbit/s --head linear --cut layer1 -o plan.json
  must tl-extract --plan plan.json photos -o features
  # Small batches, so that half of the stream holds whole frames whatever batch the plan has chosen.
  tl-extract --plan plan.json photos --batch 4 -o - >stream 2>err || fail "no stream: $(<err)"
}
pixels=raw,resize=32x32

direct() { run tl-train --model "$SHARED/net.pt" --data "$SHARED/photos" --preprocess "$pixels" "$@"; }
planned() { run tl-train --plan "$SHARED/plan.json" "$SHARED/features" "$@"; }

# of_epochs RUN KEY: of each epoch's line.
of_epochs() {
  "$PYTHON" -c 'import json, sys
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    if line["event"] == "epoch": print(line[sys.argv[2]])' "$1" "$2"
}

# await FILE: until it is there.
await() {
  local tries
  for ((tries = 0; tries < 600; ++tries)); do
    [[ -e $1 ]] && return
    sleep 0.05
  done
  fail "$1 does not appear"
}

test_it_learns_and_says_so() {
  direct --head linear --train layer2 --epochs 12 --lr 0.01 -o run --json summary.json
  expect_status 0
  expect_json summary.json "d['validation']['accuracy'] > 0.8 and sum(d['records']['training']) + sum(d['records']['validation']) == 60"
  expect_stderr 'epoch 12/12: train loss'
  expect_stderr 'recall: cat '
}

test_metrics_go_to_stdout_too() {
  planned -o run --epochs 2 --metrics -
  expect_status 0
  expect_same out run/metrics.jsonl
}

test_quiet_is_quiet() {
  planned -o run --epochs 1 -q
  expect_status 0
  expect_quiet
}

test_wrong_usage() {
  run tl-train -o run
  expect_status 2
  run tl-train --plan "$SHARED/plan.json" -o run
  expect_status 2
  run tl-train "$SHARED/features" -o run
  expect_status 2
  direct -o run
  expect_status 2
  planned -o run --head linear
  expect_status 2
  run tl-train --plan - - -o run
  expect_status 2
  for option in '--epochs 0' '--lr -1' '--lr x' '--optimizer lion' '--schedule never' '--validation 1' '--momentum 0.5' \
    '--patience 2 --validation 0' '--batch 0' '--resume --force' '--metrics - --json -'; do
    # shellcheck disable=SC2086 # several words
    planned -o run $option
    expect_status 2
  done
  expect_absent run/model.pt
}

test_a_scheme_that_fits_nothing_is_refused() {
  direct --train no_such_layer -o run
  expect_status 2
  direct --head linear --features no_such_value -o run
  [[ $status != 0 ]] || fail accepted
}

test_features_of_another_model_or_preprocessing_are_refused() {
  planned -o run --model "$SHARED/other.pt"
  expect_status 1
  expect_stderr 'other.pt: its weights are not those'
  must tl-profile model "$SHARED/net.pt" --data "$SHARED/photos" --preprocess "$pixels,mean=0.5/0.5/0.5,std=1/1/1" --seconds 1 -o profile.json
  must tl-split --storage profile.json --link 10Mbit/s --head linear --cut layer1 -o plan.json
  run tl-train --plan plan.json "$SHARED/features" -o run -q
  expect_status 1
  expect_error "features: its 'layer1[^ ]*' .* is not the 'layer1"
  expect_absent run/model.pt
}

test_a_rate_that_explodes_stops_and_keeps_the_last_good_state() {
  planned -o run --epochs 1 --optimizer sgd
  expect_status 0
  rm run/model.pt
  planned -o bad --epochs 3 --optimizer sgd --lr 1e38 -q
  expect_status 1
  expect_error 'step [0-9]+: .*(loss|parameter)'
  expect_absent bad/model.pt
  expect_absent bad/checkpoint.safetensors
}

test_resume_refuses_what_changes_results() {
  planned -o run --epochs 1
  planned -o run --epochs 2 --resume --lr 0.5 -q
  expect_status 1
  expect_error 'lr 0.001 -> 0.5'
  planned -o run --epochs 2 -q
  expect_status 1
  expect_error '--resume'
  planned -o run --epochs 2 --resume
  expect_status 0
  [[ $(of_epochs run epoch | paste -sd' ') == '1 2' ]] || fail "epochs: $(of_epochs run epoch)"
}

test_a_kept_stream_is_resumed_without_stdin() {
  run_shell "tl-extract --plan $SHARED/plan.json $SHARED/photos -o - | tl-train --plan $SHARED/plan.json - -o run --epochs 2"
  expect_status 0
  run_shell "tl-train --plan $SHARED/plan.json - -o run --epochs 4 --resume < /dev/null"
  expect_status 0
  run_shell "tl-extract --plan $SHARED/plan.json $SHARED/photos -o - | tl-train --plan $SHARED/plan.json - -o whole --epochs 4"
  of_epochs run train >resumed
  of_epochs whole train >through
  expect_same resumed through
}

test_what_a_killed_run_left_half_written_is_removed() {
  for how in --resume --force; do
    run_shell "tl-train --plan $SHARED/plan.json - -o run --epochs 1 $how < $SHARED/stream"
    expect_status 0
    leave_temporaries run
    run_shell "tl-train --plan $SHARED/plan.json - -o run --epochs 2 $how < $SHARED/stream"
    expect_status 0
    expect_no_leftovers run
  done
}

test_an_error_does_not_wait_for_a_silent_sender() {
  local half=$(($(stat -c %s "$SHARED/stream") / 2))
  mkfifo pipe
  { head -c "$half" "$SHARED/stream"; exec sleep 60; } >pipe &
  run timeout 20 tl-train --plan "$SHARED/plan.json" - -o run --lr 1e38 --optimizer sgd --batch 2 -q <pipe
  kill $!
  wait $! 2>/dev/null
  expect_status 1
  expect_error 'step [0-9]+'
}

test_an_interrupt_ends_it_with_130_and_it_resumes() {
  planned -o whole --epochs 300
  tl-train --plan "$SHARED/plan.json" "$SHARED/features" -o run --epochs 300 >out 2>err &
  pid=$!
  await run/checkpoint.safetensors
  kill -INT "$pid"
  status=0
  wait "$pid" || status=$?
  [[ $status == 130 || $status == 0 ]] || fail "status $status: $(<err)"
  expect_no_leftovers run
  planned -o run --epochs 300 --resume
  expect_status 0
  of_epochs run train >resumed
  of_epochs whole train >through
  expect_same resumed through
}

test_two_at_once_do_not_mix() {
  tl-train --plan "$SHARED/plan.json" "$SHARED/features" -o run --epochs 2000 >out 2>err1 &
  pid=$!
  await run/checkpoint.safetensors
  planned -o run --epochs 2 --resume -q
  kill "$pid"
  wait "$pid"
  expect_status 1
  expect_error "process $pid is training"
}

test_a_damaged_picture_ends_it_or_is_left_out() {
  cp -r "$SHARED/photos" photos
  head -c 300 "$SHARED/photos/cat/003.png" >photos/cat/003.png
  run tl-train --model "$SHARED/net.pt" --data photos --preprocess "$pixels" --head linear --epochs 1 -o run -q
  expect_status 1
  expect_error 'cat/003.png'
  run tl-train --model "$SHARED/net.pt" --data photos --preprocess "$pixels" --head linear --epochs 1 -o run --keep-going
  expect_status 3
  expect_stderr 'skipped cat/003.png'
}

test_one_class_is_refused() {
  run tl-train --model "$SHARED/net.pt" --data "$SHARED/photos" --classes cat --preprocess "$pixels" --head linear -o run -q
  expect_status 1
  expect_error 'one class'
}

test_memory_changes_no_result() {
  for memory in 0 50k 100M; do
    planned -o "run$memory" --epochs 3 --cache "$memory" --json "summary$memory"
    expect_status 0
    of_epochs "run$memory" train >"losses$memory"
  done
  expect_json summary0 "d['cached'] == 0"
  expect_json summary50k "0 < d['cached'] < 60"
  expect_json summary100M "d['cached'] == 60"
  expect_same losses0 losses100M
  expect_same losses50k losses100M
}

test_memory_is_the_plans_unless_given() {
  must tl-split --storage "$SHARED/profile.json" --link 10Mbit/s --head linear --cut layer1 --cache 0 -o nothing.json
  run tl-train --plan nothing.json "$SHARED/features" --epochs 2 -o none --json none.json
  expect_status 0
  expect_json none.json "d['cached'] == 0"
  run tl-train --plan nothing.json "$SHARED/features" --epochs 2 --cache 100M -o all --json all.json
  expect_status 0
  expect_json all.json "d['cached'] == 60"
}

test_idle_threads_leave_their_core_to_others() {
  local call=(tl-train --model none.pt --data none --head linear -o run) # far enough to load LibTorch
  OMP_DISPLAY_ENV=verbose run "${call[@]}"
  expect_stderr "GOMP_SPINCOUNT = '0'"
  OMP_WAIT_POLICY=active OMP_DISPLAY_ENV=verbose run "${call[@]}"
  expect_stderr "OMP_WAIT_POLICY = 'ACTIVE'"
}

test_the_training_options_of_the_page_are_those_of_the_program() {
  direct --head mlp:8 --train layer2 --pool none --epochs 2 --batch 7 --optimizer adamw --lr 0.002 --weight-decay 0.1 \
    --schedule step:1:0.5 --warmup 3 --clip-norm 1 --label-smoothing 0.1 --class-weights balanced --validation 0.3 \
    --monitor balanced-accuracy --patience 5 --seed 4 --threads 1 --limit 10 -o run
  expect_status 0
  "$PYTHON" -c 'import json
line = json.loads(open("run/metrics.jsonl").readline())
o = line["options"]
assert (o["optimizer"], o["batch"], o["schedule"], o["clip_norm"], o["seed"]) == ("adamw", 7, "step:1:0.5", 1, 4), o
assert line["scheme"]["head"] == "mlp:8", line["scheme"]' || fail 'options are not as given'
}

main "$@"
