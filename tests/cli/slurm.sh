#!/bin/bash
# tl-select --executor slurm on a real Slurm: arrays, their dependency, and a job that dies.
. "$(dirname "$0")/lib.sh"
. "$TL_SOURCE/scripts/lib/packages.sh"

if [[ $(id -u) != 0 || -z $(command -v apt-get) ]] && [[ -n $(missing_packages "${TL_SLURM_PACKAGES[@]}") ]]; then
  echo "skipped: Slurm is not installed, and only root on Debian can do that: ${TL_SLURM_PACKAGES[*]}"
  exit 77
fi

# In a folder of its own with a short name, on ports that nobody uses.
start_slurm() {
  TL_SLURM_DIR=$(mktemp -d /tmp/tl-slurm-XXXXXX)
  export TL_SLURM_DIR TL_SLURM_PORT
  trap '"$TL_SOURCE/scripts/slurm" remove' EXIT
  trap 'exit 143' INT TERM
  for TL_SLURM_PORT in {26817..27817..200}; do
    for port in "$TL_SLURM_PORT" $((TL_SLURM_PORT + 101)) $((TL_SLURM_PORT + 102)); do
      (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue 2
    done
    "$TL_SOURCE/scripts/slurm" start || exit 1
    eval "$("$TL_SOURCE/scripts/slurm" env)"
    return
  done
}

setup() {
  pictures photos 12 cat dog
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
  cat >experiment.json <<'END'
{"format": "tl-experiment", "version": 1,
 "models": [{"name": "net", "path": "net.pt", "preprocess": "raw,resize=32x32"}],
 "defaults": {"epochs": 3, "lr": 0.01}, "candidates": [{"head": ["linear", "mlp:8"]}, {"features": "layer2"}]}
END
  tl-select experiment.json photos -o local --json --threads 1 >local.json 2>err || fail "$(<err)"
}

selected() {
  run tl-select "$SHARED/experiment.json" "$SHARED/photos" -o runs --json --threads 1 --no-fuse --executor slurm \
    --jobs 2 "$@"
}

figures() { json "$1" "[(c['id'], round(c['score'], 5), round(c['validation']['loss'], 5)) for c in d['candidates']]"; }

test_slurm_gives_the_same_leaderboard() {
  selected
  expect_status 0
  [[ $(figures out) == "$(figures "$SHARED/local.json")" ]] || fail "another ranking: $(figures out)"
  expect_json out "all(c['cached'] for c in d['candidates'])"
  [[ -e runs/jobs/extract-1.log && -e runs/jobs/train-3.done ]] || fail "not done by jobs: $(ls runs/jobs)"
}

test_a_job_that_dies_is_done_by_the_next_run() {
  selected --write-jobs
  local lost
  lost=$(json runs/reuse-plan.json "d['groups'][1]['candidates'][0]")
  mkdir -p runs/trials
  : >"runs/trials/$lost" # where a folder must be
  selected
  expect_status 1
  expect_stderr 'a job failed'
  [[ $(find runs/trials -name result.json | wc -l) == 2 ]] || fail "the other jobs were not done"
  rm "runs/trials/$lost"
  selected
  expect_status 0
  [[ $(figures out) == "$(figures "$SHARED/local.json")" ]] || fail "another ranking: $(figures out)"
}

test_nothing_trains_when_the_extraction_failed() {
  cp -r "$SHARED/photos" .
  : >photos/cat/001.png
  run tl-select "$SHARED/experiment.json" photos -o runs --threads 1 --no-fuse --executor slurm --jobs 2
  expect_status 1
  expect_absent runs/trials
}

start_slurm
(main "$@")
