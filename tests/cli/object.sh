#!/bin/bash
# Data sets and features in an object store: a real Swift, spoken to by S3's interface and its own. What
# networks and servers do wrong is tested in tests/unit/object.
. "$(dirname "$0")/lib.sh"
. "$TL_SOURCE/scripts/lib/packages.sh"

HOW=raw,resize=32x32
STORES=(s3 swift)

if [[ $(id -u) != 0 || -z $(command -v apt-get) ]] && [[ -n $(missing_packages "${TL_SWIFT_PACKAGES[@]}") ]]; then
  echo "skipped: Swift is not installed, and only root on Debian can do that: ${TL_SWIFT_PACKAGES[*]}"
  exit 77
fi

# start_swift: in a folder of its own, on ports that nobody uses. Not in /tmp, which may lack extended attributes.
start_swift() {
  TL_SWIFT_DIR=$(mktemp -d -p /var/tmp tl-swift-XXXXXX)
  export TL_SWIFT_DIR TL_SWIFT_PORT
  trap '"$TL_SOURCE/scripts/swift" remove' EXIT
  trap 'exit 143' INT TERM
  for TL_SWIFT_PORT in {28480..29480..100}; do
    for port in "$TL_SWIFT_PORT" $((TL_SWIFT_PORT + 4)); do
      (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue 2
    done
    "$TL_SOURCE/scripts/swift" start || exit 1
    return
  done
}

# swift_put PATH [CURL OPTION...]: below the account, as its owner.
swift_put() {
  local path=$1 headers token
  shift
  headers=$(curl -sfi -H "X-Auth-User: $ST_USER" -H "X-Auth-Key: $ST_KEY" "$ST_AUTH") || fail "no token"
  token=$(tr -d '\r' <<<"$headers" | sed -n 's/^X-Auth-Token: //p')
  curl -sf -X PUT -H "X-Auth-Token: $token" "$@" "${ST_AUTH%/auth/*}/v1/AUTH_test/$path" >put.log || fail "cannot put $path"
}

# upload FOLDER CONTAINER: every file becomes an object.
upload() {
  swift_put "$2"
  tar -C "$1" --format=pax -cf upload.tar .
  swift_put "$2?extract-archive=tar" -T upload.tar
  grep -q '201 Created' put.log || fail "upload of $1: $(<put.log)"
  rm upload.tar
}

setup() {
  pictures photos 6 cat dog
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
  upload photos photos
}

# extract [OPTION...]: at layer2 of the shared network, without a plan.
must_extract() { must tl-extract --model "$SHARED/net.pt" --cut layer2 --preprocess "$HOW" "$@"; }

# The same shards, and the same index.
expect_same_folders() { diff -r -x .lock "$1" "$2" >diff.log || fail "$1 and $2 differ: $(head -n 3 diff.log)"; }

test_a_bucket_is_the_folder_that_was_copied_there() {
  must_extract "$SHARED/photos" -o local
  for store in "${STORES[@]}"; do
    must_extract "$store://photos" -o "$store"
    expect_same_folders local "$store"
    must_extract "$store://photos/cat/" -o "$store-cat"
    must tl-profile data "$store://photos" --preprocess "$HOW" -o profile.json
    expect_json profile.json 'd["data"]["records"] == 12'
    must tl-train --model "$SHARED/net.pt" --data "$store://photos" --preprocess "$HOW" --head linear --epochs 1 \
      -o "$store-run"
  done
  must_extract "$SHARED/photos/cat" -o cat
  expect_same_folders cat s3-cat
  expect_same_folders cat swift-cat
}

test_more_keys_than_a_page_of_a_listing() {
  mkdir -p many/a many/b
  for i in {1..550}; do
    echo "$i" >"many/a/$i"
    echo "$i and $i" >"many/b/$i"
  done
  upload many many
  must tl-extract --cut files many -o local
  for store in "${STORES[@]}"; do
    must tl-extract --cut files "$store://many" -o "$store"
    expect_stderr '^tl-extract: note: 1100 records'
    expect_same_folders local "$store"
  done
}

test_names_of_any_bytes() {
  mkdir -p 'odd/a class' odd/b+c odd/.hidden
  for name in 'a b' 'a+b' 'a%20b' '100%' 'q?x=1&y' 'h#ash' $'new\nline' $'tab\there' 'café' "'\"<>&" '-n' '~!*(),;:@=$' '\back'; do
    printf '%s' "$name" >"odd/a class/$name"
    printf '2 %s' "$name" >"odd/b+c/$name"
  done
  echo x >odd/.hidden/1
  echo x >odd/b+c/.DS_Store
  upload odd 'odd'
  must tl-extract --cut files odd -o local
  expect_stderr '2 hidden'
  for store in "${STORES[@]}"; do
    must tl-extract --cut files "$store://odd" -o "$store"
    expect_stderr '2 hidden'
    expect_same_folders local "$store"
  done
}

test_lists_and_tars_in_a_bucket() {
  printf 'path,label\ncat/001.png,x\ndog/002.png,y\n' >some.csv
  tar -C "$SHARED" -cf photos.tar photos/cat photos/dog
  swift_put lists
  swift_put lists/some.tar -T photos.tar
  tar -C "$SHARED" --transform 's|^photos|photos/more|' -cf others.tar photos/cat photos/dog
  swift_put lists/others.tar -T others.tar
  swift_put photos/some.csv -T some.csv
  cp -r "$SHARED/photos" copy
  cp some.csv copy/
  must_extract copy/some.csv -o local
  must_extract photos.tar -o local-tar
  for store in "${STORES[@]}"; do
    must_extract "$store://photos/some.csv" -o "$store"
    expect_same_folders local "$store"
    must_extract "$store://lists/some.tar" -o "$store-tar"
    expect_same_folders local-tar "$store-tar"
    must_extract "$store://lists/{some,others}.tar" -o "$store-tars"
    expect_stderr '24 records'
  done
  printf 'path,label\ns3://photos/cat/001.png,x\nswift://photos/dog/002.png,y\n' >urls.csv
  must_extract urls.csv -o urls
  expect_stderr '2 records: 2 computed'
}

# losses RUN: of each epoch.
losses() {
  "$PYTHON" -c 'import json, sys
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    if line["event"] == "epoch": print(line["train"]["loss"], line["validation"]["loss"])' "$1"
}

test_features_in_a_bucket() {
  must tl-profile model "$SHARED/net.pt" --data "$SHARED/photos" --preprocess "$HOW" --seconds 1 -o profile.json
  must tl-split --storage profile.json --link 10Mbit/s --head linear --cut layer2 -o plan.json
  must tl-extract --plan plan.json --order listing "$SHARED/photos" -o local --rows-per-shard 5
  must tl-train --plan plan.json local -o run --epochs 2 --threads 1
  losses run >expected
  [[ $(wc -l <expected) == 2 ]] || fail "no losses"
  local features
  for store in "${STORES[@]}"; do
    swift_put "features-$store"
    features="$store://features-$store/a b"
    must tl-extract --plan plan.json --order listing "$store://photos" -o "$features/" --rows-per-shard 5
    must tl-extract --plan plan.json --order listing "$SHARED/photos" -o "$features"
    expect_stderr '0 computed, 12 kept'
    must tl-train --plan plan.json "$features/" -o "run-$store" --epochs 2 --threads 1
    losses "run-$store" >found
    expect_same expected found
    must tl-extract --plan plan.json --order listing "$SHARED/photos" -o "$features/one.safetensors"
    must tl-train --plan plan.json "$features/one.safetensors" -o "one-$store" --epochs 2 --threads 1
    losses "one-$store" >found
    expect_same expected found
    must tl-extract --plan plan.json --split cat "$SHARED/photos" -o "$features" --prune
    expect_stderr 'pruned 6 unused rows'
  done
}

test_what_is_wrong_is_one_line() {
  local expected
  bad() {
    run tl-extract --cut files "$@" -o made
    [[ $status == 1 || $status == 2 ]] || fail "status $status"
    expect_error "$expected"
    expect_absent made
    grep -q topsecret err && fail "a secret in: $(<err)"
    :
  }
  for store in "${STORES[@]}"; do
    expected="$store://nowhere: HTTP 404.*; check the" bad "$store://nowhere"
    expected="$store://photos/nothing/: no object has a key that begins so" bad "$store://photos/nothing"
    expected='names no bucket' bad "$store://"
    expected='IDX' bad "$store://photos" --data-format idx
    run tl-extract --cut files "$store://photos" -o "$store://photos/features"
    expect_status 2
    expect_error 'is inside the data set'
  done
  expected='SignatureDoesNotMatch.*check the credentials \(AWS_ACCESS_KEY_ID\)' AWS_SECRET_ACCESS_KEY=topsecret bad s3://photos
  expected='HTTP 401; check ST_USER and ST_KEY' ST_KEY=topsecret bad swift://photos
  printf '[default]\naws_access_key_id = me\naws_secret_access_key = topsecret\n' >credentials
  expected="check .*profile 'default' of credentials" AWS_ACCESS_KEY_ID='' AWS_SECRET_ACCESS_KEY='' \
    AWS_SHARED_CREDENTIALS_FILE=credentials bad s3://photos
  expected='set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY' AWS_ACCESS_KEY_ID='' AWS_SECRET_ACCESS_KEY='' HOME=/nowhere bad s3://photos
  expected='set ST_AUTH, ST_USER and ST_KEY' ST_AUTH='' bad swift://photos
  expected='endpoint.*http' AWS_ENDPOINT_URL=localhost bad s3://photos
}

# A server that takes requests and never answers; its port is in the file "port", "asked" appears with a request.
silent_server() {
  "$PYTHON" -c 'import os, socket
server = socket.create_server(("127.0.0.1", 0))
with open("port.tmp", "w") as file: file.write(str(server.getsockname()[1]))
os.rename("port.tmp", "port")
connection, _ = server.accept()
connection.recv(1)
open("asked", "w").close()
while connection.recv(65536): pass'
}

test_a_signal_ends_the_wait_for_a_server() {
  silent_server &
  until [[ -e port ]]; do sleep 0.05; done
  AWS_ENDPOINT_URL=http://127.0.0.1:$(<port) tl-extract --cut files s3://photos -o made 2>err &
  local extract=$! status=0
  until [[ -e asked ]]; do sleep 0.05; done
  kill -TERM $extract
  wait $extract || status=$?
  [[ $status == 130 ]] || fail "status $status: $(<err)"
  expect_absent made
  wait
}

test_secrets_are_in_no_output() {
  must tl-extract --cut files s3://photos -o features --json report.json
  must tl-extract --cut files swift://photos -o features --json report2.json
  ! grep -r "$AWS_SECRET_ACCESS_KEY" out err report.json report2.json features || fail "a secret was written"
}


start_swift
eval "$("$TL_SOURCE/scripts/swift" env)"
(main "$@")
