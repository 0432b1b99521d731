#!/bin/bash
# Every document that a program writes is valid by its schema, judged by Python's jsonschema.
. "$(dirname "$0")/lib.sh"

setup() {
  pictures photos 12 cat $'do\xffg' # a class name that is not UTF-8
  network tiny_resnet18 net.pt --input 3x64x64
}

validate() { must "$PYTHON" "$TL_SOURCE/tests/support/validate.py" "$TL_SOURCE/schemas" "$@"; }

# lease_of COMMAND...: copies the lease that it takes in leases/, to lease.json. It has one while it writes.
lease_of() {
  mkfifo pipe
  "$@" -q >pipe &
  exec 3<pipe
  until compgen -G 'leases/*.lease' >/dev/null; do
    kill -0 "$!" || fail "$* took no lease"
    sleep 0.02
  done
  flock leases/lock cp leases/*.lease lease.json
  cat <&3 >/dev/null
  exec 3<&-
  wait "$!" || fail "$* failed"
}

test_all_documents_of_all_programs_are_valid() {
  ln -s "$SHARED"/* .
  pixels=raw,resize=64x64
  must tl-profile model net.pt --data photos --preprocess "$pixels" --seconds 1 -o model.json
  must tl-profile data photos --preprocess "$pixels" -o data.json
  must tl-profile host -o host.json
  must tl-profile link --via env --seconds 0.2 -o link.json
  must tl-split --storage model.json --link link.json --head mlp:8 --train '^layer4' -o plan.json
  : >photos/cat/empty.png
  run tl-extract --plan plan.json photos -o features --keep-going --json extraction.json
  expect_status 3
  rm photos/cat/empty.png
  lease_of tl-extract --plan plan.json photos -o - --memory-budget 16G --lease-dir leases
  must tl-train --plan plan.json features -o run --epochs 2 --json summary.json
  must tl-train --model net.pt --data photos --preprocess "$pixels" --head linear --validation 0 -o all --epochs 1
  cat >experiment.json <<END
{"format": "tl-experiment", "version": 1,
 "models": [{"name": "net", "path": "net.pt", "preprocess": "$pixels"}],
 "candidates": [{"head": ["linear", "mlp:8"], "epochs": 2}, {"head": "linear", "lr": 1e30, "optimizer": "sgd", "epochs": 2}]}
END
  must tl-select experiment.json photos -o runs --json
  cp out board.json
  must tl-select history runs --json
  cp out history.json
  mapfile -t trials < <(find runs/trials -name '*.json')
  ((${#trials[@]} == 3)) || fail "not one document for each candidate: ${trials[*]}"
  validate {model,data,host,link,plan,extraction,lease,summary,experiment,board,history}.json run/metrics.jsonl run/model.pt \
    all/metrics.jsonl all/model.pt runs/leaderboard.json runs/{reuse-plan,costs}.json "${trials[@]}" runs/best/model.pt
  cp out seen
  for schema in "$TL_SOURCE"/schemas/*.schema.json; do
    basename "$schema" .schema.json
  done | sort >all_formats
  expect_same seen all_formats
}

main "$@"
