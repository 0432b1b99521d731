#!/bin/bash
# Codecs between the programs: exact ones change no loss, rounding ones need leave, damage is found.
. "$(dirname "$0")/lib.sh"

setup() {
  pictures photos 16 cat dog owl
  network tiny_resnet18 net.pt --input 3x64x64 --random-statistics
  must tl-profile model "$SHARED/net.pt" --data photos --preprocess raw,resize=64x64 --seconds 4 -o profile.json
  expect_json profile.json "d['model']['codecs']['real'] and d['model']['codecs']['records'] == 8"
  plan layer3 fp32
  plan input u8
  piped fp32
  piped u8
}

# plan CUT CODEC [OPTION...]: makes CODEC.json.
plan() {
  must tl-split --storage "$SHARED/profile.json" --link 10Mbit/s --head linear --cut "$1" --codec "$2" --seed 3 \
    -o "$2.json" "${@:3}"
  expect_json "$2.json" "d['codec'] == '$2'"
}

# piped CODEC [OPTION...]: trains by CODEC.json over a pipe, as the run CODEC.
piped() {
  run_shell "tl-extract --plan $1.json $SHARED/photos -o - | tl-train --epochs 3 --seed 3 --plan $1.json - -o $1 ${*:2}"
  expect_status 0
  losses "$1"
}

# losses RUN: every loss with all its digits, in RUN.losses.
losses() {
  "$PYTHON" - "$1" >"$1.losses" <<'END' || fail "no losses in $1"
import json, sys
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    if line["event"] == "epoch":
        print(line["train"]["loss"], line["validation"]["loss"])
END
  [[ $(wc -l <"$1.losses") == 3 ]] || fail "$1 has not three epochs"
}

# expect_near RUN RUN: losses that differ, but by little.
expect_near() {
  "$PYTHON" - "$1.losses" "$2.losses" <<'END' || fail "losses of $1 and $2 are the same, or far apart"
import sys
a, b = ([float(x) for x in open(path).read().split()] for path in sys.argv[1:])
sys.exit(0 if a != b and all(abs(x - y) < 0.1 for x, y in zip(a, b)) else 1)
END
}

test_exact_codecs_give_bit_equal_losses() {
  plan layer3 fp32+zstd
  piped fp32+zstd
  expect_same "$SHARED/fp32.losses" fp32+zstd.losses
  plan input u8+zstd
  piped u8+zstd
  expect_same "$SHARED/u8.losses" u8+zstd.losses
}

test_rounding_codecs_train_nearly_the_same() {
  local codec
  for codec in bf16 int8; do
    plan layer3 "$codec" --allow-lossy
    plan layer3 "$codec+zstd" --max-error 0.05
    piped "$codec"
    piped "$codec+zstd"
    expect_near "$codec" "$SHARED/fp32"
    expect_same "$codec.losses" "$codec+zstd.losses"
  done
}

test_a_folder_trains_as_a_pipe_does() {
  plan layer3 int8+zstd --allow-lossy
  piped int8+zstd
  must tl-extract --plan int8+zstd.json "$SHARED/photos" -q -o features
  must tl-train --epochs 3 --seed 3 --plan int8+zstd.json features -q -o folder
  losses folder
  expect_same int8+zstd.losses folder.losses
}

test_a_run_that_was_ended_goes_on_with_what_it_kept() {
  plan layer3 int8+zstd --allow-lossy
  piped int8+zstd
  run_shell "tl-extract --plan int8+zstd.json $SHARED/photos -q -o - |
    tl-train --epochs 1 --seed 3 --plan int8+zstd.json - -q -o ended"
  expect_status 0
  must tl-train --epochs 3 --seed 3 --plan int8+zstd.json - -q -o ended --resume </dev/null
  losses ended
  expect_same int8+zstd.losses ended.losses
}

test_rounding_needs_leave() {
  local codec split=(tl-split --storage "$SHARED/profile.json" --link 10Mbit/s --head linear)
  for codec in bf16 bf16+zstd int8 int8+zstd; do
    run "${split[@]}" --codec "$codec" -o plan.json
    expect_status 2
    expect_error '--allow-lossy'
    run "${split[@]}" --codec "$codec" --max-error 1e-6 -o plan.json
    expect_status 2
    expect_error '--max-error'
    expect_absent plan.json
  done
  run "${split[@]}" --codec fp16
  expect_status 2
  must "${split[@]}" -o exact.json --explain
  expect_json exact.json "all(a['codec'] in ('fp32', 'fp32+zstd', 'u8', 'u8+zstd') for a in d['alternatives'])"
  expect_json exact.json "any(a['codec'] == 'fp32+zstd' for a in d['alternatives'])"
  must "${split[@]}" -o lossy.json --allow-lossy --explain
  expect_json lossy.json "any(a['codec'] == 'int8+zstd' for a in d['alternatives'])"
  expect_stderr '^\*? +conv1 +int8\+zstd '
}

test_rounded_features_are_refused_by_an_exact_plan() {
  must tl-extract --model "$SHARED/net.pt" --cut layer3 --codec int8 --preprocess raw,resize=64x64 -q \
    "$SHARED/photos" -o features
  run tl-train --plan "$SHARED/fp32.json" features -o run
  expect_status 1
  expect_error 'int8'
  expect_absent run/model.pt
}

test_compression_is_no_other_features() {
  plan layer3 fp32+zstd
  must tl-extract --plan "$SHARED/fp32.json" "$SHARED/photos" -q -o plain
  must tl-extract --plan fp32+zstd.json "$SHARED/photos" -q -o packed --json report.json
  expect_json report.json "'encode' in [s['name'] for s in d['stages']] and d['computed'] == 48"
  (($(du -sb packed | cut -f1) < $(du -sb plain | cut -f1))) || fail 'compressed features are not smaller'
  must tl-extract --plan "$SHARED/fp32.json" "$SHARED/photos" -q -o packed --json report.json
  expect_json report.json "d['computed'] == 0 and d['kept'] == 48"
  must tl-train --epochs 3 --seed 3 --plan "$SHARED/fp32.json" packed -q -o run
  losses run
  expect_same "$SHARED/fp32.losses" run.losses
  # Rounded ones are others.
  plan layer3 bf16 --allow-lossy
  run tl-extract --plan bf16.json "$SHARED/photos" -q -o packed
  expect_status 1
  expect_error 'codec is fp32, not bf16'
}

test_damage_to_a_compressed_stream_is_found() {
  plan layer3 int8+zstd --allow-lossy
  tl-extract --plan int8+zstd.json "$SHARED/photos" -q -o - >stream || fail 'no stream'
  local size place
  size=$(stat -c %s stream)
  for place in $((size / 4)) $((size / 2)) $((size - 200)); do
    "$PYTHON" -c 'import sys; b = bytearray(open("stream", "rb").read()); b[int(sys.argv[1])] ^= 4
open("bent", "wb").write(b)' "$place"
    run_shell "tl-train --plan int8+zstd.json - -q -o run <bent"
    expect_status 1
    expect_error 'damaged'
    run_shell "head -c $place stream | tl-train --plan int8+zstd.json - -q -o run --force"
    expect_status 1
    expect_error 'end marker'
    rm -rf run
  done
}

test_codecs_are_for_values_that_they_fit() {
  run tl-extract --model "$SHARED/net.pt" --cut layer3 --codec u8 --preprocess raw,resize=64x64 "$SHARED/photos" -o out
  expect_status 2
  expect_error "pictures cut at 'input'"
  run tl-extract --cut files --codec bf16 "$SHARED/photos" -o out
  expect_status 2
  run tl-extract --plan "$SHARED/fp32.json" --codec bf16 "$SHARED/photos" -o out
  expect_status 2
  expect_error '--codec'
}

main "$@"
