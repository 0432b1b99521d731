#!/bin/bash
# tl-profile as a process: every command measures something plausible and writes a valid document.
. "$(dirname "$0")/lib.sh"

setup() {
  pictures photos 5 cat dog owl
  network tiny_resnet net.pt --input 3x32x32
}

test_a_model_with_data_has_all_but_a_link() {
  must tl-profile model "$SHARED/net.pt" --data "$SHARED/photos" --preprocess raw,resize=32x32 --seconds 1 -o profile.json
  expect_json profile.json "set(d) == {'format', 'version', 'host', 'model', 'data'}"
  expect_json profile.json "d['data']['records'] == 15 and d['data']['classes'] == 3 and d['data']['decode_seconds'] > 0"
  expect_json profile.json "d['model']['path'].endswith('net.pt') and d['model']['measured']['batches'][0] == 1"
  expect_json profile.json "all(s > 0 for g in d['model']['measured']['segments'] for s in g['seconds'] + g['suffix_seconds'] + g['train_seconds'])"
  expect_json profile.json "d['model']['measured']['segments'][-1]['last'] == len(d['model']['graph']['nodes'])"
  expect_stderr 'layer1'
  expect_stderr 'GFLOP/s'
  expect_stderr 'its parts alone add up to'
  [[ ! -s out ]] || fail "something on stdout with -o FILE"
}

test_batches_are_those_asked_for() {
  must tl-profile model "$SHARED/net.pt" --preprocess raw,resize=32x32 --seconds 0 --batches 2,3,5 -q
  expect_quiet
  expect_json out "d['model']['measured']['batches'] == [2, 3, 5]"
  expect_json out "all(len(s['seconds']) == 3 for s in d['model']['measured']['segments'])"
  expect_json out "'data' not in d"
  run tl-profile model "$SHARED/net.pt" --preprocess raw,resize=32x32 --batches 5,2
  expect_status 2
  expect_error 'ascending'
}

test_data_alone() {
  must tl-profile data "$SHARED/photos" --preprocess raw,resize=32x32
  expect_json out "set(d) == {'format', 'version', 'data'} and d['data']['records'] == 15"
  expect_stderr '15 records'
}

test_damaged_records_are_counted() {
  cp -r "$SHARED/photos" photos
  echo nonsense >photos/cat/000.png
  must tl-profile data photos
  expect_stderr '1 of 15 .*cat/000.png'
  rm -r photos/dog photos/owl
  find photos -name '*.png' -exec sh -c 'echo nonsense >"$1"' - {} \;
  run tl-profile data photos -q
  expect_status 1
  expect_error 'none of 5'
}

test_host_alone() {
  must tl-profile host --threads 1
  expect_json out "d['host']['blas']['gflops'] > 0 and d['host']['blas']['threads'] == 1 and d['host']['cores'] >= 1"
}

test_a_new_processor_gets_fast_matrix_products() {
  grep -q GenuineIntel /proc/cpuinfo && grep -qw avx2 /proc/cpuinfo || return 0
  OPENBLAS_VERBOSE=2 env -u OPENBLAS_CORETYPE "$TL_BIN/tl-profile" host >/dev/null 2>err
  grep -q '^Core: ' err || return 0 # another BLAS than OpenBLAS
  grep -qE '^Core: (SkylakeX|Haswell)$' err || fail "kernels: $(grep '^Core: ' err)"
  OPENBLAS_VERBOSE=2 OPENBLAS_CORETYPE=Nehalem "$TL_BIN/tl-profile" host >/dev/null 2>err
  grep -q '^Core: Nehalem$' err || fail "the user's choice of kernels: $(grep '^Core: ' err)"
}

test_link_through_a_command() {
  must tl-profile link --via env --seconds 0.2 -o link.json
  expect_json link.json "d['link']['bandwidth_bytes_per_s'] > 1e6 and d['link']['command'] == 'env'"
  run tl-profile link --via false
  expect_status 1
  expect_error 'false'
}

test_the_profile_is_what_tl_split_reads() {
  must tl-profile model "$SHARED/net.pt" --data "$SHARED/photos" --preprocess raw,resize=32x32 --seconds 0 -q
  mv out profile.json
  run_shell "tl-split --storage - --link 10Mbit/s --head linear < profile.json"
  expect_status 0
  expect_json out "d['format'] == 'tl-plan' and d['classes'] == 3"
}

test_what_it_refuses() {
  run tl-profile model nowhere.pt
  expect_status 1
  expect_error 'nowhere.pt'
  run tl-profile model "$SHARED/net.pt" --preprocess raw
  expect_status 2
  expect_error '--data'
  run tl-profile model "$SHARED/net.pt" --preprocess raw,resize=32x32,channels=1
  expect_status 1
  expect_error 'net.pt'
  run tl-profile data nowhere
  expect_status 1
  expect_error 'nowhere'
  # The model is refused before any record is read.
  mkdir -p bad/cat && echo nonsense >bad/cat/1.png
  echo nonsense >bad.pt
  run tl-profile model bad.pt --data bad
  expect_status 1
  expect_error 'bad.pt'
}

test_an_interrupt_ends_it() {
  tl-profile model "$SHARED/net.pt" --preprocess raw,resize=32x32 --seconds 60 --batches 1,64,512 -o profile.json 2>err &
  pid=$!
  sleep 1.5
  kill -INT "$pid"
  status=0
  wait "$pid" || status=$?
  COMMAND='tl-profile, interrupted'
  expect_status 130
  expect_absent profile.json
}

main "$@"
