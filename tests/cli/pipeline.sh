#!/bin/bash
# profile | split | extract | train as processes: over a folder or a pipe and at any cut, the same training.
. "$(dirname "$0")/lib.sh"

setup() {
  pictures photos 16 cat dog owl
  network tiny_resnet18 net.pt --input 3x64x64 --random-statistics
  must tl-profile model "$SHARED/net.pt" --data photos --preprocess raw,resize=64x64 --seconds 1 -o profile.json
  for cut in files input layer1 layer3 avgpool; do
    plan "$cut" "$cut.json"
  done
  must tl-train --model "$SHARED/net.pt" --data photos --preprocess raw,resize=64x64 --head linear --epochs 3 --seed 3 -o direct
}

# plan CUT FILE [OPTION...]
plan() {
  must tl-split --storage "$SHARED/profile.json" --link 10Mbit/s --head linear --cut "$1" --seed 3 -o "$2" "${@:3}"
}

train() { run tl-train --epochs 3 --seed 3 "$@"; }

# expect_same_losses RUN RUN [TOLERANCE]: epoch by epoch, training and validation.
expect_same_losses() {
  "$PYTHON" - "$@" <<'END' || fail "losses of $1 and $2 differ"
import json, sys

def losses(run):
    epochs = [line for line in map(json.loads, open(run + "/metrics.jsonl")) if line["event"] == "epoch"]
    return [line[part]["loss"] for line in epochs for part in ("train", "validation")]

a, b = losses(sys.argv[1]), losses(sys.argv[2])
tolerance = float(sys.argv[3]) if len(sys.argv) > 3 else 1e-4
same = len(a) == len(b) > 0 and all(abs(x - y) <= tolerance * max(1, abs(x)) for x, y in zip(a, b))
if not same:
    print(a, b, sep="\n", file=sys.stderr)
sys.exit(0 if same else 1)
END
}

test_every_cut_trains_the_same_over_a_pipe() {
  local cut
  for cut in files input layer1 layer3 avgpool; do
    run_shell "tl-extract --plan $SHARED/$cut.json $SHARED/photos -o - |
      tl-train --epochs 3 --seed 3 --plan $SHARED/$cut.json - -o $cut"
    expect_status 0
    expect_same_losses "$SHARED/direct" "$cut"
  done
}

test_another_plan_after_an_epoch_changes_nothing() {
  local cuts from to
  for cuts in files:layer3 layer1:avgpool avgpool:input layer3:files; do
    from=${cuts%:*} to=${cuts#*:}
    run_shell "tl-extract --plan $SHARED/$from.json $SHARED/photos -o - |
      tl-train --epochs 1 --seed 3 --plan $SHARED/$from.json - -o $from-$to"
    expect_status 0
    run_shell "tl-extract --plan $SHARED/$to.json $SHARED/photos -o - |
      tl-train --epochs 3 --seed 3 --plan $SHARED/$to.json - -o $from-$to --resume"
    expect_status 0
    expect_same_losses "$SHARED/direct" "$from-$to"
  done
  # What the new plan's stream left serves a later resume as well.
  run tl-train --epochs 4 --seed 3 --plan "$SHARED/files.json" - -o layer3-files --resume </dev/null
  expect_status 0
}

test_a_run_over_a_pipe_tells_what_the_next_plan_needs() {
  run_shell "tl-extract --plan $SHARED/input.json $SHARED/photos -o - |
    tl-train --epochs 2 --seed 3 --plan $SHARED/input.json - -o seen"
  expect_status 0
  expect_stderr 'held up by the'
  [[ $(grep -c '"arrival"' seen/metrics.jsonl) == 1 ]] || fail "not one arrival"
  run tl-split --storage "$SHARED/profile.json" --link 1kbit/s --head linear --observed seen/metrics.jsonl -o next.json
  expect_status 0
  expect_stderr 'against the profiles'
  expect_json next.json 'd["revision"]["drifted"] and d["revision"]["link"] < 0.5' # a pipe is faster than that
  must tl-extract --plan "$SHARED/input.json" "$SHARED/photos" -o features
  must tl-train --plan "$SHARED/input.json" --epochs 1 --seed 3 features -o lying
  run tl-split --storage "$SHARED/profile.json" --link 1Mbit/s --head linear --observed lying/metrics.jsonl
  expect_status 0
  expect_stderr 'only a run that reads a pipe'
  run tl-split --storage "$SHARED/profile.json" --link 1Mbit/s --head linear --observed "$SHARED/profile.json"
  expect_status 1
}

test_a_folder_a_file_and_a_pipe_train_the_same() {
  must tl-extract --plan "$SHARED/layer1.json" "$SHARED/photos" -o features
  must tl-extract --plan "$SHARED/layer1.json" "$SHARED/photos" -o one.safetensors
  must tl-train --epochs 3 --seed 3 --plan "$SHARED/layer1.json" features -o folder
  must tl-train --epochs 3 --seed 3 --plan "$SHARED/layer1.json" one.safetensors -o file
  expect_same_losses folder file
  expect_same_losses folder "$SHARED/direct"
}

test_the_batch_on_the_storage_side_changes_nothing() {
  for batch in 1 7 48; do
    run_shell "tl-extract --batch $batch --plan $SHARED/layer3.json $SHARED/photos -o - |
      tl-train --epochs 3 --seed 3 --plan $SHARED/layer3.json - -o batch$batch"
    expect_status 0
    expect_same_losses "$SHARED/direct" "batch$batch"
  done
}

test_the_model_file_is_the_whole_network() {
  "$PYTHON" - "$SHARED/direct/model.pt" <<'END' || fail "model.pt does not work in Python"
import sys, torch
model = torch.jit.load(sys.argv[1])
with torch.no_grad():
    one, three = model(torch.ones(1, 3, 64, 64)), model(torch.ones(3, 3, 64, 64))
sys.exit(0 if one.shape == (1, 3) and torch.allclose(one.expand(3, 3), three, atol=1e-5) else 1)
END
}

test_a_second_extraction_computes_nothing_and_new_pictures_only() {
  cp -r "$SHARED/photos" photos
  must tl-extract --plan "$SHARED/layer3.json" photos -o features --json first.json
  expect_json first.json "d['inputs'] == d['computed'] == 48 and d['kept'] == 0"
  must tl-extract --plan "$SHARED/layer3.json" photos -o features --json second.json
  expect_json second.json "d['computed'] == 0 and d['kept'] == 48"
  mv photos/cat/000.png "photos/dog/a new name.png"
  pictures photos 18 cat # 000 again, and two new ones
  must tl-extract --plan "$SHARED/layer3.json" photos -o features --json third.json
  expect_json third.json "d['computed'] == 2"
}

test_a_failure_upstream_is_a_failure_downstream() {
  cp -r "$SHARED/photos" photos
  head -c 300 "$SHARED/photos/cat/003.png" >photos/cat/003.png
  status=0
  tl-extract --plan "$SHARED/layer1.json" photos -o - 2>upstream |
    tl-train --plan "$SHARED/layer1.json" - -o run 2>err || status=$?
  COMMAND='tl-extract of a damaged picture | tl-train'
  expect_status 1
  grep -q 'cat/003.png' upstream || fail "tl-extract does not name the picture: $(<upstream)"
  expect_stderr '^tl-train: error: '
  expect_absent run/model.pt
}

test_keep_going_skips_names_and_counts() {
  cp -r "$SHARED/photos" photos
  head -c 300 "$SHARED/photos/cat/003.png" >photos/cat/003.png
  : >photos/dog/zero.png
  run tl-extract --plan "$SHARED/layer1.json" photos -o features --keep-going --json report.json
  expect_status 3
  expect_stderr 'skipped cat/003.png: '
  expect_stderr 'skipped dog/zero.png: 0 bytes'
  expect_json report.json "d['inputs'] == 49 and d['records'] == 47 and len(d['skipped']) == 2"
  must tl-train --plan "$SHARED/layer1.json" features -o run --epochs 1
}

test_features_of_another_plan_are_refused() {
  must tl-extract --plan "$SHARED/layer1.json" "$SHARED/photos" -o features
  run tl-train --plan "$SHARED/layer3.json" features -o run
  expect_status 1
  expect_error features
  expect_absent run/model.pt
}

main "$@"
