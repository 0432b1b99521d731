#!/bin/bash
# Killed at random moments and started again, the programs end with what they would have had.
. "$(dirname "$0")/lib.sh"

setup() {
  pictures photos 100 cat dog owl
  network tiny_resnet18 net.pt --input 3x64x64
  must tl-profile model "$SHARED/net.pt" --data photos --preprocess raw,resize=64x64 --seconds 1 -o profile.json
  must tl-split --storage profile.json --link 10Mbit/s --head linear --cut layer2 --codec fp32 -o plan.json
  must tl-extract --plan plan.json photos -o features --rows-per-shard 16
  must tl-train --plan plan.json features -o run --epochs 12
}

# killed SECONDS COMMAND...: starts it, kills it with its children after that time, and waits.
killed() {
  local after=$1 pid
  shift
  setsid "$@" >out 2>err &
  pid=$!
  sleep "$after"
  kill -9 -- -"$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
}

# Moments between just after the start and about the end.
moments() { "$PYTHON" -c 'import random; print(*[round(random.uniform(0.05, 1.2), 3) for _ in range(6)])'; }

# expect_same_features FOLDER FOLDER: the same records in the same order with the same labels and features,
# however they are divided into shards. Up to rounding, since batches differ.
expect_same_features() {
  "$PYTHON" - "$1" "$2" <<'END' || fail "$1 and $2 differ"
import glob, json, struct, sys
import numpy as np
TYPES = {"F32": "<f4", "I64": "<i8", "U8": "u1"}

def read(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    return {name: np.frombuffer(data[slice(*(8 + length + at for at in info["data_offsets"]))], TYPES[info["dtype"]])
            .reshape(info["shape"]) for name, info in header.items()}

def load(folder):
    index = read(folder + "/index.safetensors")
    shards = {int(path[-18:-12]): read(path) for path in glob.glob(folder + "/shard-*.safetensors")}
    (value,) = [name for name, tensor in shards[0].items() if tensor.dtype == np.float32]
    rows = [shards[int(s)][value][int(p)] for s, p in zip(index["shard"], index["place"])]
    return index["record"], index["label"], np.stack(rows)

a, b = load(sys.argv[1]), load(sys.argv[2])
same = np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) and np.allclose(a[2], b[2], rtol=1e-4, atol=1e-4)
sys.exit(0 if same else 1)
END
}

epochs() {
  "$PYTHON" -c 'import json, sys
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    if line["event"] == "epoch": print(line["epoch"], line["train"], line["validation"])' "$1"
}

test_extraction_continues() {
  for moment in $(moments); do
    killed "$moment" tl-extract --plan "$SHARED/plan.json" "$SHARED/photos" -o features --rows-per-shard 16
  done
  must tl-extract --plan "$SHARED/plan.json" "$SHARED/photos" -o features --rows-per-shard 16
  expect_same_features "$SHARED/features" features
  expect_no_leftovers features
}

test_a_file_is_there_whole_or_not_at_all() {
  for moment in $(moments); do
    killed "$moment" tl-extract --plan "$SHARED/plan.json" "$SHARED/photos" -o one.safetensors
    [[ ! -e one.safetensors ]] || must tl-train --plan "$SHARED/plan.json" one.safetensors -o "run$moment" --epochs 1
    rm -f one.safetensors
  done
}

test_training_resumes_exactly() {
  epochs "$SHARED/run" >expected
  for moment in $(moments); do
    killed "$moment" tl-train --plan "$SHARED/plan.json" "$SHARED/features" -o run --epochs 12 --resume
  done
  must tl-train --plan "$SHARED/plan.json" "$SHARED/features" -o run --epochs 12 --resume
  epochs run >actual
  expect_same expected actual
  expect_no_leftovers run
}

test_a_pipeline_that_was_killed_runs_again() {
  for moment in $(moments); do
    killed "$moment" bash -c "tl-extract --plan $SHARED/plan.json $SHARED/photos -o - |
      tl-train --plan $SHARED/plan.json - -o piped --epochs 3 --resume"
  done
  # The status of tl-train: where an earlier run has kept the whole stream, nobody reads the sender (141).
  run bash -c "tl-extract --plan $SHARED/plan.json $SHARED/photos -o - |
    tl-train --plan $SHARED/plan.json - -o piped --epochs 3 --resume"
  expect_status 0
  expect_no_leftovers piped
  [[ $(epochs piped | wc -l) == 3 ]] || fail "not 3 epochs: $(epochs piped)"
}

test_an_interrupt_leaves_no_temporary_file() {
  setsid tl-extract --plan "$SHARED/plan.json" "$SHARED/photos" -o features --rows-per-shard 16 >out 2>err &
  pid=$!
  sleep 0.5
  kill -INT -- -"$pid" 2>/dev/null
  status=0
  wait "$pid" || status=$?
  [[ $status == 130 || $status == 0 ]] || fail "status $status after SIGINT: $(<err)"
  expect_no_leftovers features
}

test_selection_continues() {
  cat >experiment.json <<END
{"format": "tl-experiment", "version": 1,
 "models": [{"name": "net", "path": "$SHARED/net.pt", "preprocess": "raw,resize=64x64"}],
 "candidates": [{"head": ["linear", "mlp:16"], "lr": [0.01, 0.001], "epochs": 4}]}
END
  board='[(c["name"], c.get("score")) for c in d["candidates"]]'
  must tl-select experiment.json "$SHARED/photos" -o whole --json
  json out "$board" >expected
  for moment in $(moments); do
    killed "$moment" tl-select experiment.json "$SHARED/photos" -o parts
  done
  must tl-select experiment.json "$SHARED/photos" -o parts --json
  json out "$board" >actual
  expect_same expected actual
}

main "$@"
