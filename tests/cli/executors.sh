#!/bin/bash
# tl-select --executor: the same leaderboard, whoever extracts and trains.
. "$(dirname "$0")/lib.sh"

pixels=raw,resize=32x32

FOLDER="photos of \$a \"dog\""

setup() {
  pictures "$FOLDER" 12 cat dog owl
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
  experiment "it's one.json" '[{"head": ["linear", "mlp:8"]}, {"features": "layer2"}, {"train": "^layer4", "optimizer": "sgd"},
    {"lr": 1e20, "optimizer": "sgd", "head": "mlp:4"}]'
  tl-select "it's one.json" "$FOLDER" -o local --json --threads 1 >local.json 2>err || fail "$(<err)"
}

experiment() {
  cat >"$1" <<END
{"format": "tl-experiment", "version": 1, ${3:-}
 "models": [{"name": "net", "path": "net.pt", "preprocess": "$pixels"}],
 "defaults": {"epochs": 3, "lr": 0.01}, "candidates": $2}
END
}

selected() { run tl-select "$SHARED/it's one.json" "$SHARED/$FOLDER" -o runs --json --threads 1 "$@"; }

# The ranking, and every figure, of two leaderboards.
expect_same_ranking() {
  "$PYTHON" - "$1" "$2" <<'END' || fail "$1 and $2 rank in another way"
import json, sys
a, b = (json.load(open(path))["candidates"] for path in sys.argv[1:])
def near(x, y):
    if isinstance(x, float) or isinstance(y, float): return abs(x - y) <= 1e-5 * max(1, abs(x))
    if isinstance(x, dict): return x.keys() == y.keys() and all(near(x[k], y[k]) for k in x if k not in ("seconds", "cached"))
    if isinstance(x, list): return len(x) == len(y) and all(map(near, x, y))
    return x == y
sys.exit(0 if near(a, b) and a else 1)
END
}

test_make_gives_the_same_leaderboard() {
  selected --executor make --jobs 3
  expect_status 0
  cp out made.json
  expect_same_ranking "$SHARED/local.json" made.json
  expect_json made.json "all(c['cached'] for c in d['candidates'])"
  [[ -s runs/best/model.pt ]] || fail "no best model"
  expect_no_leftovers runs
}

test_the_jobs_are_ordinary_commands_that_do_what_is_missing() {
  selected --executor make --jobs 2 --write-jobs
  expect_status 0
  [[ ! -s out ]] || fail "a plan has no leaderboard"
  expect_absent runs/trials
  local scripts=(runs/jobs/train-*.sh)
  must sh runs/jobs/extract-2.sh
  run sh runs/jobs/train-1.sh # too early: part 1 is missing
  [[ $status != 0 ]] || fail "trained on half of the records"
  expect_error 'lacks a part of the data set'
  must make -C runs/jobs -j 2
  for script in "${scripts[@]}"; do [[ -e ${script%.sh}.done ]] || fail "$script was not run"; done
  rm runs/jobs/train-1.done # as after the death of a node: the others are not started again
  must make -C runs/jobs
  expect_stderr 'train-1 of [0-9]+ jobs is done'
  [[ $(grep -c 'is done' err) == 1 ]] || fail "more than what was missing: $(<err)"
  selected
  expect_status 0
  expect_same_ranking "$SHARED/local.json" out
  expect_json out "all(c['cached'] for c in d['candidates'])"
}

test_a_job_that_fails_leaves_what_others_did() {
  selected --executor make --jobs 2 --write-jobs
  local id
  id=$(json runs/reuse-plan.json "d['groups'][0]['candidates'][0]")
  mkdir -p "runs/trials/$id"
  chmod 555 "runs/trials/$id"
  if [[ $(id -u) == 0 ]]; then # who may write anywhere
    rm -r "runs/trials/$id"
    : >"runs/trials/$id"
  fi
  selected --executor make --jobs 2
  expect_status 1
  expect_stderr 'a job failed .*run again to do what is missing'
  chmod 755 "runs/trials/$id"
  [[ -f runs/trials/$id ]] && rm "runs/trials/$id"
  selected --executor make --jobs 2
  expect_status 0
  expect_same_ranking "$SHARED/local.json" out
}

test_labels_that_arrive_are_extracted_by_parts_too() {
  cp -r "$SHARED/$FOLDER" photos
  for try in first second; do
    run tl-select "$SHARED/it's one.json" photos -o runs --json --threads 1 --executor make --jobs 2
    expect_status 0
    cp out made.json
    must tl-select "$SHARED/it's one.json" photos -o "alone-$try" --json --threads 1
    expect_same_ranking out made.json
    pictures more 3 cat dog owl
    for class in cat dog owl; do
      for file in more/"$class"/*; do cp "$file" "photos/$class/$try-${file##*/}"; done
    done
  done
}

test_what_makes_no_sense_is_refused() {
  for options in "--jobs 2" "--write-jobs" "--sbatch=-pmain" "--executor make --partition 1/2" "--partition 3/2" "--candidates x --json"; do
    # shellcheck disable=SC2086 # several words
    run tl-select "$SHARED/it's one.json" "$SHARED/$FOLDER" -o runs $options
    expect_status 2
    expect_absent runs
  done
  run tl-select "$SHARED/it's one.json" "$SHARED/$FOLDER" -o runs --candidates 0123456789abcdef
  expect_status 1
  expect_error 'holds no plan'
  expect_absent runs
  selected --executor make --write-jobs
  run tl-select "$SHARED/it's one.json" "$SHARED/$FOLDER" -o runs --candidates 0123456789abcdef
  expect_status 2
  expect_error "no candidate '0123456789abcdef'"
}

# A cluster that runs tasks at once, without Slurm: what is submitted, and that it depends on what it must.
test_slurm_gets_arrays_that_wait_for_each_other() {
  mkdir bin
  cat >bin/sbatch <<'END'
#!/bin/bash
printf '%s\n' "$*" >>"$SUBMITTED"
for word; do
  case $word in --array=1-*) count=${word##*-} ;; --wrap=*) command=${word#--wrap=} ;; esac
done
for ((SLURM_ARRAY_TASK_ID = 1; SLURM_ARRAY_TASK_ID <= count; ++SLURM_ARRAY_TASK_ID)); do
  export SLURM_ARRAY_TASK_ID
  sh -c "$command" >&2 || exit 1
done
echo 17
END
  chmod +x bin/sbatch
  SUBMITTED=$PWD/submitted PATH=$PWD/bin:$PATH selected --executor slurm --jobs 2 --sbatch=--partition=main
  expect_status 0
  expect_same_ranking "$SHARED/local.json" out
  [[ $(wc -l <submitted) == 2 ]] || fail "not two arrays: $(<submitted)"
  grep -q -e '^--parsable --job-name=tl-extract --array=1-2 .*--partition=main' submitted || fail "$(<submitted)"
  grep -q -e '--job-name=tl-train .*--wait --dependency=afterok:17 --kill-on-invalid-dep=yes' submitted || fail "$(<submitted)"
}

main "$@"
