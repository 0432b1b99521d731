#!/bin/bash
# tl-extract as a process: what it refuses, what it does again, what it leaves alone.
. "$(dirname "$0")/lib.sh"

HOW=raw,resize=32x32

setup() {
  pictures photos 6 cat dog
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
}

# extract [OPTION...]: at layer2 of the shared network, without a plan.
extract() { run tl-extract --model "$SHARED/net.pt" --cut layer2 --preprocess "$HOW" "$@"; }

must_extract() {
  extract "$@"
  expect_status 0
}

# expect_rows FOLDER EXPRESSION: over `rows`, a list of (id, class, features) in reading order.
expect_rows() {
  "$PYTHON" - "$@" <<'END' || fail "not true of the rows of $1: $2"
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

index = read(sys.argv[1] + "/index.safetensors")
shards = {int(path[-18:-12]): read(path) for path in glob.glob(sys.argv[1] + "/shard-*.safetensors")}
offset, blob = index["id_offset"], index["id"].tobytes()
value = next(name for name in next(iter(shards.values())) if name.startswith(("layer", "input", "conv"))) if shards else None
rows = [(blob[offset[i] : offset[i + 1]], int(index["label"][i]),
         shards[int(index["shard"][i])][value][int(index["place"][i])]) for i in range(len(index["label"]))]
sys.exit(0 if eval(sys.argv[2]) else 1)
END
}

test_rows_are_the_records_in_order() {
  must_extract "$SHARED/photos" -o features
  expect_rows features '[r[0] for r in rows] == [b"%s/%03d.png" % (c, i) for c in (b"cat", b"dog") for i in range(6)]'
  expect_rows features '[r[1] for r in rows] == [0] * 6 + [1] * 6'
  expect_stderr '12 records: 12 computed, 0 kept, 0 skipped'
  expect_stderr 'bottleneck: '
  expect_no_leftovers features
}

test_what_a_killed_extraction_left_half_written_is_removed() {
  must_extract "$SHARED/photos" -o features
  leave_temporaries features
  must_extract "$SHARED/photos" -o features
  expect_no_leftovers features
}

test_layers_in_bf16_give_features_of_their_own() {
  must_extract "$SHARED/photos" -o exact
  must_extract "$SHARED/photos" -o features --execution channels-last
  extract "$SHARED/photos" -o exact --execution channels-last
  expect_status 0
  expect_stderr '0 computed, 12 kept'
  must_extract "$SHARED/photos" -o rounded --execution bf16
  "$PYTHON" - <<'END' || fail "bf16 and exact features are the same, or far apart"
import glob, json, struct, sys
import numpy as np

def features(folder):
    data = open(glob.glob(folder + "/shard-*")[0], "rb").read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    begin, end = next(info["data_offsets"] for name, info in header.items() if name.startswith("layer"))
    return np.frombuffer(data[8 + length + begin : 8 + length + end], "<f4")

exact, same, rounded = (features(folder) for folder in ("exact", "features", "rounded"))
largest = np.abs(exact).max()
sys.exit(0 if np.abs(exact - same).max() < 1e-5 * largest and 1e-5 < np.abs(exact - rounded).max() / largest < 0.03 else 1)
END
  extract "$SHARED/photos" -o exact --execution bf16
  expect_status 1
  expect_error 'exact: .*computed in fp32, not in bf16'
  must tl-profile model "$SHARED/net.pt" --data "$SHARED/photos" --preprocess "$HOW" --batches 1 --seconds 1 -o profile.json
  must tl-split --storage profile.json --link 10Mbit/s --head linear --cut layer2 -o plan.json
  run tl-train --plan plan.json rounded -o run
  expect_status 1
  expect_error 'rounded: its values were computed in bf16'
}

test_a_plan_may_ask_for_bf16() {
  must tl-profile model "$SHARED/net.pt" --data "$SHARED/photos" --preprocess "$HOW" --batches 1 --seconds 1 --allow-bf16 -o profile.json
  expect_json profile.json "[e['execution'] for e in d['model']['measured']['executions']] == ['blocked', 'channels-last', 'bf16']"
  # Whichever is the fastest here: the one that is tested.
  "$PYTHON" - <<'END'
import json
profile = json.load(open("profile.json"))
profile["model"]["measured"]["execution"] = "bf16"
json.dump(profile, open("profile.json", "w"))
END
  must tl-split --storage profile.json --link 10Mbit/s --head linear --cut layer2 -o plan.json
  expect_json plan.json "d['execution'] == {'storage': 'bf16', 'compute': 'bf16'}"
  run_shell "tl-extract --plan plan.json $SHARED/photos -o - | tl-train --plan plan.json - --epochs 2 -o run"
  expect_status 0
  run tl-extract --plan plan.json "$SHARED/photos" --execution blocked -o features
  expect_status 2
  expect_error 'leave out --cut, --codec, --preprocess and --execution'
}

test_parts_make_the_whole() {
  must_extract "$SHARED/photos" -o whole --order shuffled --seed 3
  tar -C "$SHARED" -cf photos.tar photos
  for source in "$SHARED/photos" photos.tar; do
    rm -rf features
    local pids=() part
    for part in 3/3 1/3; do
      tl-extract --model "$SHARED/net.pt" --cut layer2 --preprocess "$HOW" "$source" -o features --order shuffled \
        --seed 3 --partition "$part" 2>>log &
      pids+=($!)
    done
    for part in "${pids[@]}"; do wait "$part" || fail "a part failed: $(<log)"; done
    run tl-train --model "$SHARED/net.pt" --cut layer2 --head linear features -o run
    [[ $status == 0 ]] && fail "an incomplete folder was read"
    extract "$source" -o features --order shuffled --seed 3 --partition 2/3 --json report.json
    expect_status 0
    expect_stderr 'all 3 parts are there: 12 records, 0 skipped'
    expect_json report.json "d['part']['missing'] == [] and d['part']['records'] == 12 and d['inputs'] < 12"
    for folder in whole features; do
      expect_rows "$folder" 'open(sys.argv[1] + ".txt", "w").write(repr([(r[0].removeprefix(b"photos/"), r[1], r[2].tolist()) for r in rows]))'
    done
    [[ $source == *.tar ]] || expect_same whole.txt features.txt
    extract "$source" -o features # as a whole: it finds everything
    expect_status 0
    expect_stderr '12 records: 0 computed, 12 kept, 0 skipped'
  done
}

test_a_damaged_record_is_counted_by_its_part_and_by_the_whole() {
  cp -r "$SHARED/photos" .
  : >photos/cat/003.png
  local part skipped=0
  for part in 1/4 2/4 3/4 4/4; do
    extract photos -o features --keep-going --partition "$part"
    [[ $status == 3 ]] && ((++skipped))
    [[ $status == 0 || $status == 3 ]] || fail "status $status: $(<err)"
  done
  ((skipped == 1)) || fail "$skipped parts skipped the record"
  expect_stderr 'all 4 parts are there: 11 records, 1 skipped'
  expect_rows features 'len(rows) == 11'
}

test_parts_of_another_data_set_do_not_count() {
  cp -r "$SHARED/photos" .
  must_extract photos -o features --partition 1/2
  expect_stderr 'part 1/2 is there; still to come: 2/2'
  cp photos/cat/001.png photos/cat/new.png
  must_extract photos -o features --partition 2/2
  expect_stderr 'part 2/2 is there; still to come: 1/2'
  must_extract photos -o features --partition 1/2
  expect_stderr 'all 2 parts are there: 13 records, 0 skipped'
  expect_rows features 'len(rows) == 13'
  extract photos -o features --partition 3/2
  expect_status 2
  expect_error "'3/2' is no part of a data set"
  extract photos -o features --partition 1/2 --force
  expect_status 2
  expect_error 'leave out --partition'
}

test_every_batch_keeps_every_record() {
  for batch in 1 5 12 100; do
    must_extract "$SHARED/photos" -o "b$batch" --batch "$batch" --threads 2
    expect_rows "b$batch" 'len(rows) == 12'
  done
}

test_wrong_usage() {
  local expected
  bad() {
    run tl-extract "$@" </dev/null
    expect_status 2
    expect_error "$expected"
  }
  expected='--plan' bad "$SHARED/photos" -o made
  expected='--model' bad --cut layer2 "$SHARED/photos" -o made
  expected='--cut' bad --plan plan.json --cut layer2 "$SHARED/photos" -o made
  expected='stdin' bad --plan - - -o made
  expected='stdout' bad --model "$SHARED/net.pt" --cut layer2 "$SHARED/photos" -o - --json -
  expected='--prune' bad --model "$SHARED/net.pt" --cut layer2 "$SHARED/photos" -o - --prune
  expected='layer2' bad --model "$SHARED/net.pt" --cut layr2 --preprocess "$HOW" "$SHARED/photos" -o made
  expected='separate|possible' bad --model "$SHARED/net.pt" --cut layer2.0.conv1 --preprocess "$HOW" "$SHARED/photos" -o made
  expected='size|crop' bad --model "$SHARED/net.pt" --cut layer2 --preprocess raw "$SHARED/photos" -o made
  expected='inside' bad --model "$SHARED/net.pt" --cut layer2 --preprocess "$HOW" "$SHARED/photos" -o "$SHARED/photos/made"
  expected='--batch' bad --batch 0 --cut files "$SHARED/photos" -o made
  expect_absent made
}

test_a_model_that_cannot_be_split_is_refused_before_any_picture_is_read() {
  mkdir -p bad/cat && echo nonsense >bad/cat/1.png
  cat >models.py <<'END' # a file: scripting wants to see the source
import torch
from torch import nn

class Mixing(nn.Module):
    def forward(self, x):
        return (x - x.mean(0, keepdim=True)).flatten(1)

class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(int(x.shape[0]) // 2 * 2, -1)

class Branch(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            return x.flatten(1)
        return -x.flatten(1)

x = torch.rand(2, 3, 32, 32)
torch.jit.trace(Mixing(), x).save("mixing.pt")
torch.jit.trace(Fixed(), x).save("fixed.pt")
torch.jit.script(Branch()).save("branch.pt")
dropout = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(3072, 2)).train()
torch.jit.trace(dropout, x, check_trace=False).save("dropout.pt")
torch.save(dropout.state_dict(), "state.pt")
END
  "$PYTHON" -W ignore models.py || fail "no models"
  head -c 5000 "$SHARED/net.pt" >short.pt
  : >empty.pt
  for name in mixing fixed branch dropout state short empty missing; do
    run tl-extract --model "$name.pt" --cut input --preprocess "$HOW" bad -o made
    expect_status 1
    expect_error "$name.pt"
    grep -q nonsense err && fail "it read a picture before it refused $name.pt"
  done
  expect_absent made
}

test_a_model_saved_in_training_mode_gives_what_it_gives_in_evaluation() {
  "$PYTHON" - <<'END' || fail "no models"
import torch
from torch import nn
torch.manual_seed(1)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(), nn.Conv2d(4, 4, 3))
torch.jit.script(net.eval()).save("eval.pt")
torch.jit.script(net.train()).save("train.pt")
END
  for name in eval train; do
    must tl-extract --model "$name.pt" --cut 1 --preprocess "$HOW" "$SHARED/photos" -o "$name" --batch 5
  done
  for file in index shard-000000; do expect_same "eval/$file.safetensors" "train/$file.safetensors"; done
}

test_names_are_bytes() {
  mkdir -p odd/cat
  cp "$SHARED/photos/cat/000.png" 'odd/cat/my cat.png'
  cp "$SHARED/photos/cat/001.png" $'odd/cat/a\nb.png'
  cp "$SHARED/photos/cat/002.png" odd/cat/-n.png
  cp "$SHARED/photos/cat/003.png" $'odd/cat/caf\xc3\xa9.png'
  cp "$SHARED/photos/cat/004.png" $'odd/cat/cafe\xcc\x81.png'
  cp "$SHARED/photos/cat/005.png" $'odd/cat/\xff.png'
  wanted='sorted(r[0].split(b"/")[-1] for r in rows) == sorted([b"my cat.png", b"a\nb.png", b"-n.png", b"caf\xc3\xa9.png", b"cafe\xcc\x81.png", b"\xff.png"])'
  must_extract odd -o by_folder --json report.json
  expect_rows by_folder "$wanted"
  run_shell "find odd -name '*.png' -print0 | tl-extract --model $SHARED/net.pt --cut layer2 --preprocess $HOW - -o by_list"
  expect_status 0
  expect_rows by_list "$wanted"
  echo nonsense >$'odd/cat/b\nad\xfe.png'
  extract odd -o by_folder --keep-going --json report.json
  expect_status 3
  expect_stderr 'skipped cat/b\\x0aad\\xfe.png: '
  expect_json report.json "d['skipped'][0]['id'] == 'cat/b\\\\nad\\\\\\\\xfe.png'.encode().decode('unicode_escape')"
}

test_what_changed_is_told_and_nothing_is_lost() {
  cp -r "$SHARED/photos" photos
  must_extract photos -o features --json report.json
  mv photos/cat/000.png photos/dog/000a.png # another class
  mv photos/cat/001.png photos/cat/name.png
  rm photos/cat/002.png
  cp photos/dog/005.png photos/cat/003.png # other content
  touch -r photos/cat/004.png photos/cat/003.png
  must_extract photos -o features --json report.json
  expect_json report.json "d['computed'] == 0"
  expect_json report.json "d['changes'] == {'added': 0, 'changed': 1, 'relabelled': 1, 'renamed': 1, 'removed': 1, 'unchanged': 8}"
  expect_stderr 'added 0, changed 1, relabelled 1, renamed 1, removed 1, unchanged 8'
  expect_rows features 'len(rows) == 11'

  # A part of the data removes nothing but from the index ...
  find photos/dog -name '00[12].png' >two
  must_extract two -o features
  expect_rows features 'len(rows) == 2'
  must_extract photos -o features --json report.json
  expect_json report.json "d['computed'] == 0"
  # ... unless it is asked for.
  must_extract two -o features --prune
  expect_stderr 'pruned 10 unused rows'
  must_extract photos -o features --json report.json
  expect_json report.json "d['computed'] in (8, 9)" # two of the nine are equal
}

test_features_of_another_kind_are_never_mixed_in() {
  must_extract "$SHARED/photos" -o features
  refused() {
    run tl-extract --model "${model:-$SHARED/net.pt}" --cut "${cut:-layer2}" --preprocess "${how:-$HOW}" "$SHARED/photos" -o features
    expect_status 1
    expect_error "$1"
  }
  how=raw,resize=36x36 refused 'preprocessing'
  how=$HOW,mean=0.5/0.5/0.5,std=0.5/0.5/0.5 refused 'preprocessing'
  how=$HOW,interpolation=bicubic refused 'preprocessing'
  how=$HOW,exif=apply refused 'preprocessing'
  cut=layer1 refused 'layer1'
  # One weight, under the same path, size and time.
  cp "$SHARED/net.pt" net.pt
  "$PYTHON" -c 'import torch
net = torch.jit.load("net.pt")
next(net.parameters()).data.flatten()[0] += 0.001
net.save("changed.pt")'
  touch -r net.pt changed.pt
  model=changed.pt refused 'weights'
  # Threads and batches are no other kind.
  must_extract "$SHARED/photos" -o features --threads 1 --batch 3 --json report.json
  expect_json report.json "d['kept'] == 12"
  must tl-extract --model changed.pt --cut layer2 --preprocess "$HOW" "$SHARED/photos" -o features --force --json report.json
  expect_json report.json "d['computed'] == 12"
}

test_a_damaged_shard_is_found_and_done_again() {
  must_extract "$SHARED/photos" -o features --rows-per-shard 4
  cp -r features whole
  for cut in 1 50 100 5000; do
    truncate -s "-$cut" features/shard-000001.safetensors
    must_extract "$SHARED/photos" -o features --rows-per-shard 4 --json report.json
    expect_json report.json "d['computed'] == 4 and d['kept'] == 8"
    expect_rows features 'len(rows) == 12'
    rm -r features
    cp -r whole features
  done
}

test_two_at_once_on_one_folder() {
  must_extract "$SHARED/photos" -o features
  # Another process holds the folder, as a writer does.
  "$PYTHON" - <<'END' &
import fcntl, os, time
lock = open("features/.lock", "r+")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(f"{os.getpid()}\n"); lock.flush()
open("held", "w").close()
time.sleep(30)
END
  holder=$!
  for _ in {1..100}; do [[ -e held ]] && break; sleep 0.1; done
  extract "$SHARED/photos" -o features
  kill "$holder"
  expect_status 1
  expect_error "$holder"
}

test_a_reader_that_leaves_ends_it_quietly() {
  for disposition in - "''"; do
    bash -c "trap $disposition PIPE; { tl-extract -q --model $SHARED/net.pt --cut layer1 --preprocess $HOW $SHARED/photos -o -; echo \$? >status; } 2>err | head -c 100 >/dev/null"
    COMMAND='tl-extract | head -c 100'
    status=$(<status)
    expect_status 141
    expect_quiet
  done
}

test_closed_stdout_and_full_disk_are_failures() {
  status=0
  tl-extract -q --model "$SHARED/net.pt" --cut layer1 --preprocess "$HOW" "$SHARED/photos" -o - >&- 2>err || status=$?
  COMMAND='tl-extract >&-'
  expect_status 1
  expect_error stdout
  status=0
  tl-extract -q --model "$SHARED/net.pt" --cut layer1 --preprocess "$HOW" "$SHARED/photos" -o features --json - >/dev/full 2>err || status=$?
  COMMAND='tl-extract --json - >/dev/full'
  expect_status 1
  expect_error 'No space left'
}

test_an_interrupt_ends_it_although_nobody_reads() {
  pictures many 200 cat
  mkfifo pipe
  { exec <pipe; sleep 60; } &
  reader=$!
  tl-extract -q --cut files many -o - >pipe 2>err &
  pid=$!
  sleep 1
  kill -INT "$pid"
  for _ in {1..50}; do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  kill -0 "$pid" 2>/dev/null && { kill -9 "$pid"; kill "$reader"; fail "still there 5 s after SIGINT"; }
  status=0
  wait "$pid" || status=$?
  kill "$reader"
  COMMAND='tl-extract, interrupted'
  expect_status 130
}

test_an_interrupted_run_is_continued() {
  pictures many 150 cat dog
  tl-extract -q --model "$SHARED/net.pt" --cut layer2 --preprocess "$HOW" many -o features --batch 8 2>err &
  pid=$!
  for _ in {1..200}; do [[ -e features/.lock ]] && break; sleep 0.02; done
  sleep 0.1
  kill -INT "$pid" 2>/dev/null
  status=0
  wait "$pid" || status=$?
  [[ $status == 130 || $status == 0 ]] || fail "status $status: $(<err)"
  must_extract many -o features --json report.json
  expect_json report.json "d['kept'] + d['computed'] == 300"
  expect_rows features 'len(rows) == 300'
}

test_tensor_files_are_data_sets() {
  "$PYTHON" - <<'END'
import struct
import numpy as np
random = np.random.default_rng(1)
images = random.integers(0, 256, (9, 32, 32), dtype="u1")
labels = np.arange(9, dtype="u1") % 3
open("train-images-idx3-ubyte", "wb").write(struct.pack(">HBBIII", 0, 8, 3, 9, 32, 32) + images.tobytes())
open("train-labels-idx1-ubyte", "wb").write(struct.pack(">HBBI", 0, 8, 1, 9) + labels.tobytes())
END
  mkdir idx && mv train-* idx
  must_extract idx -o features --classes 1-2 --limit 2
  expect_rows features 'sorted(r[1] for r in rows) == [0, 0, 1, 1]'
  expect_rows features 'all(int(r[0][6:]) % 3 == r[1] + 1 for r in rows)'
  run tl-extract --model "$SHARED/net.pt" --cut layer2 idx -o other
  expect_status 2
  expect_error '--preprocess'
}

test_no_record_at_all() {
  printf 'path,label\n' >none.csv
  must_extract none.csv -o features --json report.json
  expect_json report.json "d['inputs'] == 0 and d['records'] == 0"
}

main "$@"
