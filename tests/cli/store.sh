#!/bin/bash
# tl-select over many cycles: what each kind of change costs, the catalogue, history, gc, crashes, full disks.
. "$(dirname "$0")/lib.sh"

pixels=raw,resize=32x32

setup() {
  pictures photos 20 cat dog owl
  # Files that were just written are read again: they might be written once more in the same moment.
  find photos -type f -exec touch -d '1 hour ago' {} +
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
}

experiment() {
  cat >experiment.json <<END
{"format": "tl-experiment", "version": 1,
 "models": [{"name": "net", "path": "$SHARED/net.pt", "preprocess": "$pixels"}],
 "defaults": {"epochs": 2, "lr": 0.01, "optimizer": "sgd"}, "candidates": ${1:-[{\"head\": [\"linear\", \"mlp:8\"]\}]}}
END
}

cycle() { must tl-select experiment.json photos -o runs --json --materialise all "$@"; }
changes() { json out "' '.join(str(d['cycle']['changes'][k]) for k in ('added', 'changed', 'relabelled', 'renamed', 'removed', 'unchanged'))"; }
expect_changes() { [[ $(changes) == "$1" ]] || fail "added, changed, relabelled, renamed, removed, unchanged are $(changes), not $1"; }
query() { "$PYTHON" -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone())' runs/catalogue.db "$1"; }
losses() { json "$1" "sorted((c['id'], c['score'], c['validation']['loss']) for c in d['candidates'])"; }

# Some containers do not allow it.
can_trace() {
  strace -o /dev/null true 2>/dev/null || { echo "    not run: strace does not work here" >&2; return 1; }
}

# Inodes change their time when the pictures are copied; wait until they are old enough to be trusted.
settled_photos() {
  cp -rp "$SHARED/photos" photos
  local newest
  newest=$(find photos -type f -printf '%C@\n' | sort -n | tail -1)
  until "$PYTHON" -c "import sys, time; sys.exit(time.time() <= $newest + 2.1)"; do sleep 0.1; done
}

test_each_kind_of_change_is_told_and_costs_what_it_must() {
  cp -rp "$SHARED/photos" photos
  experiment
  cycle
  expect_changes "60 0 0 0 0 0"
  losses out >before
  mv photos/cat/003.png photos/cat/renamed.png # the same picture and class
  cycle
  expect_changes "0 0 0 1 0 59"
  expect_json out "d['features'][0]['written'] == 0 and all(c['cached'] for c in d['candidates']) and d['cycle']['number'] == 2"
  must tl-select experiment.json photos -o fresh --json --materialise all
  losses out >fresh.losses
  expect_same before fresh.losses # a folder without a past gives the same
  pictures more 21 cat dog
  mv more/cat/020.png photos/cat/
  mv photos/dog/001.png photos/owl/moved.png
  cp more/dog/020.png photos/dog/002.png
  rm photos/owl/002.png
  cycle
  expect_changes "1 1 1 0 1 57"
  expect_stderr 'note: cycle 3: 60 records: 1 added, 1 changed, 1 relabelled, 1 removed, 57 unchanged'
  expect_json out "d['features'][0]['written'] == 2 and not any(c['cached'] for c in d['candidates'])"
  mv photos/dog/003.png photos/cat/003.png # only a label
  cycle
  expect_changes "0 0 1 0 0 59"
  expect_json out "d['features'][0]['written'] == 0"
  [[ $(query 'SELECT count(*), max(cycle) FROM cycles') == "4 4" ]] || fail "cycles: $(query 'SELECT count(*), max(cycle) FROM cycles')"
}

test_a_run_without_changes_reads_no_record() {
  settled_photos
  experiment
  cycle
  [[ $(query 'SELECT count(*), count(inode) FROM records') == "60 60" ]] || fail "not every file is known"
  chmod 000 photos/cat/004.png
  chmod 644 photos/cat/004.png # another time of change: read again
  can_trace || return 0
  must strace -f -e trace=openat -o trace tl-select experiment.json photos -o runs --json --materialise all
  [[ $(grep -c 'photos/.*png' trace) == 1 ]] || fail "read $(grep -c 'photos/.*png' trace) pictures, not 1"
  expect_json out "all(c['cached'] for c in d['candidates'])"
  [[ $(query 'SELECT count(*), runs FROM cycles') == "1 2" ]] || fail "a repetition became a cycle"
  cycle --verify
  expect_changes "0 0 0 0 0 60"
}

test_a_file_written_again_at_the_same_time_and_size_is_noticed() {
  settled_photos
  experiment
  cycle
  touch -r photos/cat/005.png stamp
  cp photos/cat/006.png other
  truncate -s "$(stat -c %s photos/cat/005.png)" other # the tail of a PNG may miss or be zeros
  cat other >photos/cat/005.png
  touch -r stamp photos/cat/005.png
  run tl-select experiment.json photos -o runs --json --materialise all --keep-going
  [[ $status == 0 || $status == 3 ]] || fail "status $status: $(<err)"
  expect_json out "d['cycle']['changes']['unchanged'] == 59"
}

test_the_catalogue_may_go() {
  cp -rp "$SHARED/photos" photos
  experiment
  cycle
  rm runs/catalogue.db
  mv photos/cat/003.png photos/cat/renamed.png
  cycle
  expect_stderr 'warning: runs: has no catalogue.db; it is made again'
  expect_changes "0 0 0 1 0 59"
  expect_json out "all(c['cached'] for c in d['candidates']) and d['cycle']['number'] == 1"
}

test_a_damaged_or_newer_catalogue() {
  cp -rp "$SHARED/photos" photos
  experiment
  cycle
  cp runs/catalogue.db sound.db
  head -c 3000 sound.db >runs/catalogue.db
  cycle
  expect_stderr 'warning: runs/catalogue.db: damaged.*; kept as runs/catalogue.db.damaged, and made again'
  expect_json out "all(c['cached'] for c in d['candidates'])"
  [[ $(stat -c %s runs/catalogue.db.damaged) == 3000 ]] || fail "the damaged one is not kept"
  "$PYTHON" -c 'import sqlite3; sqlite3.connect("runs/catalogue.db").execute("PRAGMA user_version = 9")'
  run tl-select experiment.json photos -o runs
  expect_status 1
  expect_error 'written by a newer tl-tools \(version 9'
  run tl-select history runs
  expect_error 'newer'
  echo text >runs/catalogue.db
  run tl-select history runs
  expect_error 'damaged.*the next run of tl-select sets it aside'
}

test_a_shard_that_rots_is_noticed_and_made_again() {
  cp -rp "$SHARED/photos" photos
  experiment
  cycle
  shard=$(echo runs/features/*/shard-000000.safetensors)
  "$PYTHON" - "$shard" <<'END'
import os, sqlite3, sys
# As if the disk had changed a bit: what the catalogue knows of the file is made to fit.
data = bytearray(open(sys.argv[1], "rb").read())
data[-1] ^= 1
with open(sys.argv[1], "r+b") as file: file.write(data)
s = os.stat(sys.argv[1])
with sqlite3.connect("runs/catalogue.db") as db:
    db.execute("UPDATE shards SET modified_ns = ?, changed_ns = ?", (s.st_mtime_ns, s.st_ctime_ns))
END
  cycle # nothing is trained, so nothing is read
  experiment '[{"head": "mlp:9"}]'
  run tl-select experiment.json photos -o runs --materialise all
  expect_status 1
  expect_stderr 'checksum'
  cycle
  expect_stderr 'removed, its records are extracted again'
  expect_json out "d['candidates'][0]['status'] == 'ok'"
}

test_a_warm_start_goes_on_from_the_last_cycle() {
  cp -rp "$SHARED/photos" photos
  experiment '[{"head": "linear", "lr": 0.001}]'
  cycle --warm-start
  expect_json "$(echo runs/trials/*/result.json)" "'warm_start' not in d" # there was nothing to start from
  pictures more 21 cat
  mv more/cat/020.png photos/cat/
  cp -r runs cold
  must tl-select experiment.json photos -o cold --json --materialise all
  cold=$(json out "d['candidates'][0]['validation']['loss']")
  data=$(json "$(echo runs/trials/*/result.json)" "d['data']")
  cycle --warm-start
  expect_json "$(echo runs/trials/*/result.json)" "d['warm_start'] == '$data'"
  expect_json out "d['candidates'][0]['validation']['loss'] < $cold"
  cycle --warm-start
  expect_json out "d['candidates'][0]['cached']"
  cycle # must not depend on the past
  expect_json out "not d['candidates'][0]['cached'] and d['candidates'][0]['validation']['loss'] == $cold"
  [[ $(query 'SELECT group_concat(warm_start) FROM cycles') == "1,1,0" ]] || fail "cycles: $(query 'SELECT group_concat(warm_start) FROM cycles')"
}

test_history_and_its_plot() {
  cp -rp "$SHARED/photos" photos
  experiment
  run tl-select history runs
  expect_status 1
  expect_error 'there is no catalogue'
  cycle
  pictures more 26 cat dog owl
  for class in cat dog owl; do mv more/"$class"/02[0-5].png photos/"$class"/; done
  cycle
  must tl-select history runs
  expect_stdout '^cycle  started'
  expect_stdout '^ +2 .* 78 +18 '
  must tl-select history runs --json --plot curve.svg
  expect_json out "[c['records'] for c in d['cycles']] == [60, 78] and [p['records'] for p in d['curves'][0]['points']] == [60, 78] and len(d['curves']) == 3"
  expect_json out "len(d['cycles'][1]['trials'][0]['recall']) == 3"
  must tl-select history runs --plot -
  expect_same out curve.svg
  must "$PYTHON" -c 'import xml.etree.ElementTree as t; r = t.parse("curve.svg").getroot(); assert r.tag.endswith("svg") and "http" not in open("curve.svg").read().replace("http://www.w3.org/2000/svg", "")'
  cp experiment.json history
  must tl-select ./history photos -o runs --materialise all # a file of a command's name
}

test_gc_removes_the_least_valuable_first() {
  cp -rp "$SHARED/photos" photos
  experiment '[{"features": ["layer1", "layer2", null]}]'
  cycle
  experiment '[{"features": "layer2"}]'
  cycle
  current=$(json out "d['features'][0]['key']")
  must tl-select gc runs --budget 0 --dry-run
  (($(wc -l <out) == 3)) || fail "three feature sets, not $(wc -l <out)"
  [[ $(tail -1 out) == features/$current* ]] || fail "the current set is not the last to go"
  (($(find runs/features -name 'shard*' | wc -l) >= 3)) || fail "a dry run removes"
  size=$(du -b runs/features/"$current" | cut -f1)
  must tl-select gc runs --budget "$size" --trials
  [[ $(ls runs/features) == "$current" ]] || fail "left: $(ls runs/features)"
  expect_stdout '^trials/'
  cycle
  expect_json out "d['candidates'][0]['cached'] and d['features'][0]['written'] == 0"
  experiment '[{"features": ["layer1", "layer2"]}]'
  cycle
  expect_json out "sorted(f['written'] for f in d['features']) == [0, 60]"
  run tl-select gc nowhere --budget 1
  expect_status 1
  run tl-select gc runs
  expect_status 2
}

test_two_at_once() {
  cp -rp "$SHARED/photos" photos
  experiment '[{"epochs": 1000000}]'
  setsid tl-select experiment.json photos -o runs --materialise all >first 2>first.err &
  pid=$!
  for _ in $(seq 600); do [[ -e runs/reuse-plan.json ]] && break; sleep 0.05; done
  run tl-select gc runs --budget 0
  expect_status 1
  expect_error "process $pid is writing here"
  run tl-select experiment.json photos -o runs
  expect_status 1
  expect_stderr "process $pid is writing here"
  kill -9 -- -"$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  experiment
  cycle
  expect_json out "all(c['status'] == 'ok' for c in d['candidates'])"
}

# Killed at each of the calls that make something durable, the next run finishes, and gives the same.
test_a_crash_at_any_point() {
  can_trace || return 0
  cp -rp "$SHARED/photos" photos
  experiment '[{"head": "linear"}]'
  must tl-select experiment.json photos -o whole --json --materialise all
  losses out >wanted
  for at in 1 3 5 8 12 16 20 24 28; do
    rm -rf runs
    strace -f -qq -o trace -e trace=fsync,fdatasync -e "inject=fsync,fdatasync:signal=KILL:when=$at" \
      tl-select experiment.json photos -o runs --materialise all >killed 2>&1
    cycle
    losses out >found
    expect_same wanted found
    expect_no_leftovers runs
    [[ $(query 'PRAGMA integrity_check') == ok ]] || fail "damaged after a kill at call $at"
    [[ $(query 'SELECT count(*) FROM cycles') == 1 ]] || fail "not one cycle after a kill at call $at"
  done
}

test_a_full_disk() {
  cp -rp "$SHARED/photos" photos
  experiment '[{"features": ["layer1", null]}]'
  mkdir small
  if ! mount -t tmpfs -o size=200k tmpfs small 2>/dev/null; then
    echo "    not run: only root can mount a small disk" >&2
    return 0
  fi
  trap 'umount small' EXIT
  run tl-select experiment.json photos -o small/runs --materialise all
  expect_status 1
  expect_stderr 'No space left on device'
  mount -o remount,size=20m small
  must tl-select experiment.json photos -o small/runs --json --materialise all
  expect_json out "all(c['status'] == 'ok' for c in d['candidates'])"
  expect_no_leftovers small/runs
}

main "$@"
