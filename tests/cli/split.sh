#!/bin/bash
# tl-split: profiles in, a plan out.
. "$(dirname "$0")/lib.sh"

# Profiles of a made-up chain conv - relu - pool - flatten - fc, written as tl-profile writes them.
# there.json: 1 ms a node; here.json: the same model, four times slower; other.json: other weights.
setup() {
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$TL_SOURCE/tests/support "$PYTHON" - <<'END'
import json
from chain_profile import chain_profile

def write(name, document):
    with open(name, "w") as file:
        json.dump(document, file)

write("there.json", chain_profile(1e-3))
write("here.json", chain_profile(4e-3))
write("other.json", chain_profile(1e-3, "b"))
write("link.json", {"format": "tl-profile", "version": 1,
                    "link": {"bandwidth_bytes_per_s": 1e4, "round_trip_s": 0.01}})
linked = chain_profile(1e-3)
linked["link"] = {"bandwidth_bytes_per_s": 1e4, "round_trip_s": 0.01}
write("linked.json", linked)
END
}

split() { run tl-split --storage "$SHARED/there.json" --compute "$SHARED/here.json" --head linear "$@"; }

test_a_plan_goes_to_stdout_and_says_where_to_cut() {
  split --link 100Mbit/s,5ms
  expect_status 0
  expect_quiet
  expect_json out "d['format'] == 'tl-plan' and d['version'] == 1 and d['classes'] == 3"
  expect_json out "d['cut']['values'][0]['name'] == 'pool'" # both sides are busy: 3.5 and 4 ms a record
  expect_json out "d['scheme'] == {'head': 'linear', 'pool': 'auto'}"
  expect_json out "d['alternatives'][0]['name'] == 'files'"
}

test_json_is_one_line_and_the_same_plan() {
  split --link 100Mbit/s
  cp out pretty
  split --link 100Mbit/s --json
  [[ $(wc -l <out) == 1 ]] || fail "not one line"
  "$PYTHON" -c 'import json; assert json.load(open("out")) == json.load(open("pretty"))' || fail "not the same plan"
}

test_output_is_a_file_whole_or_not_at_all() {
  split --link 100Mbit/s -o new/plan.json
  expect_status 0
  [[ ! -s out ]] || fail "stdout should be empty"
  expect_json new/plan.json "d['format'] == 'tl-plan'"
  expect_no_leftovers new
  split --link 100Mbit/s --cut nowhere -o new/other.json
  expect_status 2
  expect_absent new/other.json
  split --link 100Mbit/s -o /dev/null/plan.json
  expect_status 1
  status=0
  tl-split --storage "$SHARED/there.json" --link 1MB/s --head linear >/dev/full 2>err || status=$?
  expect_status 1
  expect_error 'No space left'
}

test_a_profile_can_come_from_stdin() {
  split --link 100Mbit/s
  cp out plan
  run tl-split --storage - --compute "$SHARED/here.json" --head linear --link 100Mbit/s <"$SHARED/there.json"
  expect_status 0
  expect_same out plan
  run tl-split --storage - --compute - --head linear --link - <"$SHARED/there.json"
  expect_status 2
  expect_error 'only one document'
}

test_without_compute_both_sides_are_alike() {
  run tl-split --storage "$SHARED/there.json" --head linear --link 100Mbit/s
  expect_status 0
  cp out plan
  run tl-split --storage "$SHARED/there.json" --compute "$SHARED/there.json" --head linear --link 100Mbit/s
  expect_same out plan
}

test_the_link_is_stated_read_or_measured() {
  split --link "$SHARED/link.json"
  expect_status 0
  cp out plan
  split --link 10kB/s,10ms
  expect_same out plan
  run tl-split --storage "$SHARED/linked.json" --compute "$SHARED/here.json" --head linear
  expect_status 0
  expect_same out plan
  split --link env # measured through this machine: fast
  expect_status 0
  expect_json out "0 < d['alternatives'][0]['predicted']['link'] < 0.01"
  split
  expect_status 2
  expect_error 'the link is unknown.*--link'
  split --link 100Mbit
  expect_status 2
  expect_error "'100Mbit' is not the speed of a link"
  split --link 'false #'
  expect_status 1
  expect_error "link 'false #'"
  split --link "$SHARED/there.json"
  expect_status 1
  expect_error 'has no link.*tl-profile link'
}

test_an_interrupted_measurement_ends_with_its_command() {
  mkfifo never
  tl-split --storage "$SHARED/there.json" --head linear --link 'cat >never #' >out 2>err &
  local pid=$!
  exec 3<never
  kill -INT "$pid"
  status=0
  wait "$pid" || status=$?
  COMMAND="tl-split, interrupted"
  expect_status 130
  timeout 10 cat <&3 >rest || fail "the command was left running"
  [[ $(<rest) == *tl-link-ready* ]] || fail "the command did not get the script"
}

test_every_algorithm_gives_its_cut() {
  for algorithm in pipelined sum hapi earliest freeze storage none; do
    split --link 100Mbit/s --algorithm "$algorithm" -o "$algorithm.json"
    expect_status 0
    expect_json "$algorithm.json" "d['algorithm'] == '$algorithm'"
    expect_json "$algorithm.json" "sum('$algorithm' in a['chosen_by'] for a in d['alternatives']) == 1"
  done
  expect_json none.json "d['cut'] == {'kind': 'files', 'values': []}"
  expect_json freeze.json "d['cut']['values'][0]['name'] == 'flatten' and d['train_on'] == 'compute'"
  expect_json storage.json "d['train_on'] == 'storage' and d['predicted']['bytes'] == 0"
  for algorithm in sum hapi earliest freeze none; do # ours is never predicted to be slower
    expect_json "$algorithm.json" "d['predicted']['total'] >= $(json pipelined.json "d['predicted']['total']")"
  done
  split --link 100Mbit/s --algorithm hapy
  expect_status 2
  expect_error "did you mean 'hapi'"
}

test_a_cut_can_be_forced() {
  for cut in files input conv relu pool flatten; do
    split --link 100Mbit/s --cut "$cut"
    expect_status 0
    [[ $cut == files ]] || expect_json out "[v['name'] for v in d['cut']['values']] == ['$cut']"
    expect_json out "(d['codec'] == 'u8') == ('$cut' == 'input')"
  done
  split --link 100Mbit/s --cut reluu
  expect_status 2
  expect_error "did you mean 'relu'"
  split --link 100Mbit/s --cut head.0
  expect_status 2
  expect_error 'trained; the deepest possible cut is flatten'
}

test_the_table_goes_to_stderr() {
  split --link 100Mbit/s --explain
  expect_status 0
  expect_json out "d['format'] == 'tl-plan'"
  expect_stderr '^ +cut +codec +bytes'
  expect_stderr '^\* +pool +fp32 .*pipelined'
  expect_stderr '^ +files .*none'
  expect_stderr 'Chosen: pool \(pipelined\)'
  [[ $(grep -c '^\*' err) == 1 ]] || fail "not one line is marked"
}

test_schemes() {
  split --link 100Mbit/s --head mlp:16 --train '^conv'
  expect_status 2 # --head is there twice
  run tl-split --storage "$SHARED/there.json" --link 1MB/s --head mlp:16,8 --train '^conv' --features relu --pool mean
  expect_status 0
  expect_json out "d['scheme'] == {'head': 'mlp:16,8', 'features': 'relu', 'pool': 'mean', 'train': '^conv'}"
  expect_json out "{a['name'] for a in d['alternatives']} == {'files', 'input'}" # nothing stays frozen
  run tl-split --storage "$SHARED/there.json" --link 1MB/s --train fc --classes 10
  expect_status 0
  expect_json out "d['classes'] == 10 and d['scheme'] == {'train': 'fc'}"
  run tl-split --storage "$SHARED/there.json" --link 1MB/s --unfreeze 1 --classes 10
  expect_status 0
  expect_json out "d['scheme'] == {'unfreeze': 1} and d['alternatives'][-1]['name'] == 'flatten'" # fc trains
  for features in relu+pool sum:relu+pool; do
    split --link 1MB/s --features "$features"
    expect_status 0
    expect_json out "d['scheme']['features'] == '$features'"
    expect_json out "'relu+pool' in [a['name'] for a in d['alternatives']]" # both cross, or what the head makes of them
    expect_json out "'head.pool' in [a['name'] for a in d['alternatives']]"
  done
  split --link 1MB/s --adapters 2:1
  expect_status 0
  expect_json out "d['scheme']['adapters'] == '2:1' and d['alternatives'][-1]['name'] == 'relu'" # where the adapter begins
  split --link 1MB/s --adapters 2:5
  expect_status 2
  expect_error "--adapters 2:5: there is only one block, 'conv'"
  split --link 1MB/s --features sum:relu+input
  expect_status 2
  expect_error "'input' is not of the same width as 'relu'"
  for wrong in '' '--train fc' '--head linear --train nothing' '--head round' '--head linear --pool max' \
    '--head linear --features nowhere' '--head linear --pool none --features relu' '--head linear --train (' \
    '--unfreeze 9' '--head linear --adapters 0' '--head linear --features relu+nowhere' '--features relu+pool'; do
    # shellcheck disable=SC2086
    run tl-split --storage "$SHARED/there.json" --link 1MB/s $wrong
    expect_status 2
    expect_error '.'
  done
}

test_limits_and_workload() {
  split --link 1MB/s --memory 1k
  expect_status 0
  expect_json out "all(a['feasible'] == (a['name'] == 'files') for a in d['alternatives'])"
  split --link 1MB/s --memory 1k --cut flatten # forced all the same
  expect_status 0
  split --link 1MB/s --compute-memory 1k
  expect_status 1
  expect_error 'no cut fits the memory.*--compute-memory'
  split --link 1MB/s --cache 0
  expect_status 0
  expect_json out "d['cache']['memory_bytes'] == 0"
  split --link 1MB/s --epochs 1 --records 5 --batch 2
  expect_json out "d['predicted']['total'] == d['predicted']['first_epoch']"
  for wrong in --memory=-5 '--memory 5x' '--memory 1e30' '--memory much' '--epochs 0' '--records 0' '--batch 0' '--classes 0' '--seed -1'; do
    # shellcheck disable=SC2086
    split --link 1MB/s $wrong
    expect_status 2
    expect_error '.'
  done
}

test_order() {
  split --link 1MB/s --seed 7
  expect_json out "d['order'] == {'shuffle': True, 'seed': 7}"
  split --link 1MB/s --listing-order
  expect_json out "d['order'] == {'shuffle': False, 'seed': 0}"
}

test_profiles_of_different_models_are_refused() {
  run tl-split --storage "$SHARED/there.json" --compute "$SHARED/other.json" --head linear --link 1MB/s
  expect_status 1
  expect_error 'there.json and .*other.json: profiles of different models'
}

test_a_bad_profile_is_one_line_with_its_place() {
  head -c 300 "$SHARED/there.json" >cut.json
  echo '{"format": "tl-plan", "version": 1}' >plan.json
  echo '{"format": "tl-profile", "version": 2}' >newer.json
  sed 's/"cores": 2/"cores": "two"/' "$SHARED/there.json" >field.json
  : >empty.json
  for file in cut plan newer field empty missing; do
    run tl-split --storage "$file.json" --head linear --link 1MB/s
    expect_status 1
    expect_error "$file\.json"
  done
  run tl-split --storage field.json --head linear --link 1MB/s
  expect_error 'field.json: /host/cores'
  run tl-split --storage "$SHARED/link.json" --head linear --link 1MB/s
  expect_status 1
  expect_error 'has no model section; make it with tl-profile model'
}

test_it_starts_without_libtorch() {
  ldd "$(command -v tl-split)" >libraries
  ! grep -Eq 'libtorch|libc10|libopencv' libraries || fail "tl-split loads: $(grep -E 'libtorch|libc10|libopencv' libraries)"
}

main "$@"
