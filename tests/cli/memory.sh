#!/bin/bash
# Jobs that share the memory of a host: together within the budget, all of them done, the same features.
. "$(dirname "$0")/lib.sh"

HOW=raw,resize=64x64
export OMP_NUM_THREADS=1

setup() {
  pictures photos 200 cat dog
  network tiny_resnet net.pt --input 3x64x64 --random-statistics
  must tl-extract --model net.pt --cut layer2 --preprocess "$HOW" photos -o expected.safetensors --threads 1
}

# job NAME [OPTION...]: extracts in the background into NAME.safetensors. Leaves its process number in $!.
job() {
  local name=$1
  shift
  tl-extract --model "$SHARED/net.pt" --cut layer2 --preprocess "$HOW" "$SHARED/photos" -o "$name.safetensors" \
    --threads 1 --lease-dir leases "$@" >"$name.out" 2>"$name.err" &
}

# ended PID...: waits for them; each must succeed.
ended() {
  local pid
  for pid in "$@"; do
    status=0
    wait "$pid" || status=$?
    [[ $status == 0 ]] || fail "a job ended with $status: $(cat ./*.err)"
  done
}

# expect_features FILE: those of the reference, up to rounding, since batches differ.
expect_features() {
  "$PYTHON" - "$SHARED/expected.safetensors" "$1" <<'END' || fail "$1 holds other features"
import json, struct, sys
import numpy as np

def read(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    types = {"F32": "<f4", "I64": "<i8", "U8": "u1"}
    return {name: np.frombuffer(data[slice(*(8 + length + at for at in info["data_offsets"]))], types[info["dtype"]])
            .reshape(info["shape"]) for name, info in header.items()}

a, b = read(sys.argv[1]), read(sys.argv[2])
assert a.keys() == b.keys()
for name in a:
    assert a[name].shape == b[name].shape, name
    assert np.allclose(a[name], b[name], rtol=1e-4, atol=1e-4), name
END
}

# The smallest budget that one job fits in, in MiB.
needed() {
  run tl-extract --model "$SHARED/net.pt" --cut layer2 --preprocess "$HOW" "$SHARED/photos" -o never.safetensors \
    --threads 1 --lease-dir small --memory-budget 1M
  expect_status 1
  expect_error 'needs [0-9.]+ MiB at least.*raise --memory-budget'
  expect_absent never.safetensors
  sed -E 's/.*needs ([0-9]+)[0-9.]* MiB.*/\1/' err
}

test_concurrent_jobs_stay_within_the_budget_and_give_the_same_features() {
  local alone budget pids=()
  alone=$(needed)
  budget=$((alone * 5 / 2)) # two or three at once, of six
  for n in {1..6}; do
    job "job$n" --memory-budget "${budget}M" --batch $((16 * n)) --min-batch 2
    pids+=($!)
  done
  # Proportional set sizes: what several processes map counts once. Sampled until the last job has ended.
  "$PYTHON" - $((budget << 20)) "${pids[@]}" >sampled <<'END'
import sys, time
budget, pids = int(sys.argv[1]), sys.argv[2:]
most = samples = together = 0
while True:
    total = alive = 0
    for pid in pids:
        try:
            lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
            alive += any(line.startswith("Pss:") for line in lines)
        except OSError:
            pass
    if not alive:
        break
    most, samples, together = max(most, total), samples + 1, max(together, alive)
    time.sleep(0.005)
print(most, samples, together)
sys.exit(0 if most <= budget and samples > 20 and together > 1 else 1)
END
  status=$?
  ended "${pids[@]}"
  [[ $status == 0 ]] || fail "budget $((budget << 20)); most, samples, jobs at once: $(<sampled)"
  for n in {1..6}; do expect_features "job$n.safetensors"; done
  [[ $(find leases -name '*.lease' | wc -l) == 0 ]] || fail "leases are left: $(ls leases)"
}

# hold BYTES [LOADED]: another process that has started and holds so many bytes until $HOLDER is killed. LOADED: those
# that it had once its libraries were loaded.
hold() {
  mkdir -p leases
  "$PYTHON" - "$1" "${2:-0}" <<'END' &
import fcntl, json, os, sys, time
demand = {"idle": 0, "fixed": int(sys.argv[1]), "per_record": 0, "least": 1, "wanted": 1, "half_batch": 0}
file = open(f"leases/000000000001-{os.getpid()}.lease", "w")
fcntl.flock(file, fcntl.LOCK_EX)
json.dump({"format": "tl-lease", "version": 1, "pid": os.getpid(), "state": "running", "held": int(sys.argv[1]),
           "shared": 0, "loaded": int(sys.argv[2]), "batch": 7, "demand": demand}, file)
file.flush()
open("held", "w").close()
while True:
    time.sleep(60)
END
  HOLDER=$!
  disown
  for _ in {1..200}; do [[ -e held ]] && return; sleep 0.05; done
  fail "no holder"
}

# waits_for NAME: until job NAME has said that it waits.
waits_for() {
  for _ in {1..200}; do grep -q 'waits for' "$1.err" && return; sleep 0.05; done
  fail "it does not wait: $(<"$1.err")"
}

test_a_job_that_does_not_fit_waits_and_says_for_whom() {
  hold $((900 << 20))
  echo 1000M >leases/budget
  job one
  local pid=$!
  waits_for one
  kill -9 "$HOLDER"
  ended "$pid"
  [[ $(grep -c 'waits for' one.err) == 1 ]] || fail "not said once: $(<one.err)"
  grep -Eq "1000.0 MiB .*process $HOLDER holds 900.0 MiB for batches of 7" one.err || fail "not who: $(<one.err)"
  expect_features one.safetensors
}

test_jobs_wait_before_they_load_libtorch() {
  hold $((900 << 20)) $((200 << 20))
  echo 1000M >leases/budget
  job one
  local first=$!
  job two
  local second=$!
  waits_for one
  waits_for two
  for pid in "$first" "$second"; do
    grep -Eq '/tl-extract$' "/proc/$pid/maps" || fail "process $pid is no tl-extract"
    ! grep -Eq 'libtorch|libopencv' "/proc/$pid/maps" || fail "process $pid waits with $(grep -Eo 'lib(torch|opencv).*' "/proc/$pid/maps" | sort -u)"
  done
  kill -9 "$HOLDER"
  ended "$first" "$second"
  expect_features two.safetensors
}

test_killed_jobs_free_their_share_at_once() {
  local alone pids=()
  alone=$(needed)
  for n in {1..4}; do
    job "killed$n" --memory-budget $((alone * 3 / 2))M
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    sleep "0.$((RANDOM % 5))" # at whatever it does then
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
  done
  job last --memory-budget $((alone * 3 / 2))M
  ended $!
  expect_features last.safetensors
}

test_a_waiting_job_ends_with_its_reader_or_by_a_signal() {
  hold $((900 << 20))
  echo 1000M >leases/budget
  { tl-extract --cut files "$SHARED/photos" -o - --lease-dir leases --min-batch 1 2>stream.err; echo $? >status; } | {
    exec <&-
    for _ in {1..200}; do [[ -e status ]] && break; sleep 0.05; done
  }
  [[ $(<status) == 141 ]] || fail "status $(<status) without a reader: $(<stream.err)"
  job one
  local pid=$!
  waits_for one
  kill -TERM "$pid"
  status=0
  wait "$pid" || status=$?
  kill -9 "$HOLDER"
  [[ $status == 130 ]] || fail "status $status after SIGTERM"
  expect_absent one.safetensors
}

test_the_budget_of_the_host_is_agreed_on() {
  run tl-extract --cut files "$SHARED/photos" -o a.safetensors --lease-dir leases
  expect_status 2
  expect_error 'nobody has set a budget.*--memory-budget'
  hold 1000
  echo 2G >leases/budget
  run tl-extract --cut files "$SHARED/photos" -o a.safetensors --lease-dir leases --memory-budget 3G
  expect_status 1
  expect_error 'share 2.0 GiB, not 3.0 GiB'
  must tl-extract --cut files "$SHARED/photos" -o a.safetensors --lease-dir leases
  must tl-extract --cut files "$SHARED/photos" -o a.safetensors --lease-dir leases --memory-budget 2048M
  kill -9 "$HOLDER"
  echo many >leases/budget
  run tl-extract --cut files "$SHARED/photos" -o a.safetensors --lease-dir leases
  expect_status 1
  expect_error 'leases/budget.*no amount of memory'
}

main "$@"
