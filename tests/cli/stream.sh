#!/bin/bash
# Streams that stop, dribble, or begin with something else; disks that are full; readers that leave.
. "$(dirname "$0")/lib.sh"

setup() {
  pictures photos 12 cat dog
  network tiny_vgg net.pt
  must tl-profile model "$SHARED/net.pt" --data photos --preprocess raw,resize=32x32 --seconds 1 -o profile.json
  must tl-split --storage profile.json --link 10Mbit/s --head linear --cut input -o plan.json
  tl-extract --plan plan.json photos -o - >stream 2>err || fail "no stream: $(<err)"
}

train() { run_shell "$1 | tl-train --plan $SHARED/plan.json - -o run --epochs 2 $2"; }

test_a_stream_that_is_cut_off_anywhere_is_an_error() {
  local size
  size=$(stat -c %s "$SHARED/stream")
  for keep in 0 1 11 12 13 100 $((size / 2)) $((size - 30)) $((size - 1)); do
    train "head -c $keep $SHARED/stream" --quiet
    expect_status 1
    expect_error 'stdin|stream'
    expect_absent run/model.pt
    rm -rf run
  done
}

test_what_follows_a_stream_is_an_error() {
  train "{ cat $SHARED/stream; echo more; }" --quiet
  expect_status 1
  expect_error 'stdin|stream'
  expect_absent run/model.pt
}

test_a_flipped_byte_is_an_error() {
  local size place
  size=$(stat -c %s "$SHARED/stream")
  for place in 3 20 400 $((size / 2)) $((size - 40)); do
    "$PYTHON" -c 'import sys; b = bytearray(open(sys.argv[1], "rb").read()); b[int(sys.argv[2])] ^= 4
open("bent", "wb").write(b)' "$SHARED/stream" "$place"
    train "cat bent" --quiet
    expect_status 1
    expect_error 'stdin|stream'
    rm -rf run
  done
}

test_a_short_read_is_not_the_end() {
  train "{ head -c 5; sleep 0.3; head -c 70000; sleep 0.3; cat; } < $SHARED/stream" --quiet
  expect_status 0
  expect_quiet
}

test_a_banner_before_the_stream_is_named() {
  train "{ echo 'Welcome to storage!'; cat $SHARED/stream; }" --quiet
  expect_status 1
  expect_error 'stdin|stream'
  expect_stderr 'Welcome|login|banner|text'
}

test_a_full_disk_is_a_failure() {
  run_shell "tl-extract --plan $SHARED/plan.json $SHARED/photos -q -o - > /dev/full"
  expect_status 1
  expect_error 'No space left on device'
}

test_a_full_file_system_leaves_nothing_half_done() {
  mkdir small
  mount -t tmpfs -o size=64k none small 2>/dev/null || { echo "       (no tmpfs here: not tested)"; return; }
  run tl-extract --plan "$SHARED/plan.json" "$SHARED/photos" -q -o small/features
  umount_after=$status
  find small -type f -name '*.safetensors' >found
  expect_no_leftovers small
  umount small
  status=$umount_after
  expect_status 1
  expect_error 'No space left on device'
}

test_a_closed_stdout_is_a_failure() {
  run_shell "tl-extract --plan $SHARED/plan.json $SHARED/photos -q -o - >&-"
  expect_status 1
  expect_error 'stdout'
}

test_a_reader_that_leaves_ends_it_quietly() {
  for disposition in - "''"; do
    status=0
    bash -c "trap $disposition PIPE; { tl-extract --plan $SHARED/plan.json $SHARED/photos -q -o -; echo \$? >status; } 2>err | head -c 100 >/dev/null"
    COMMAND="tl-extract | head (trap $disposition PIPE)"
    status=$(<status)
    expect_status 141
    expect_quiet
  done
}

main "$@"
