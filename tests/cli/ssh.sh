#!/bin/bash
# Beside the storage: what a client may ask for through ssh and through a socket, and what it may not.
. "$(dirname "$0")/lib.sh"

export OMP_NUM_THREADS=1

setup() {
  mkdir root outside
  pictures root/photos 20 cat dog
  pictures outside/photos 2 cat
  cp -r root/photos 'root/my photos'
  network tiny_resnet root/net.pt --input 3x32x32 --random-statistics
  cp root/net.pt outside/net.pt
  cd root || return
  plan net.pt ../plan.json # a relative path of the model starts at the root
  must tl-extract --plan ../plan.json photos -o - --threads 1
  mv out ../expected
  plan "$SHARED/outside/net.pt" ../outside.json
  rm out err profile.json
  cd ..
  ln -s ../outside/photos root/link
  ln -s photos root/alias
  printf 'path\nphotos/cat/000.png\n' >root/inside.csv
  printf 'path\n../outside/photos/cat/000.png\n' >root/relative.csv
  printf 'path\n%s\n' "$PWD/outside/photos/cat/000.png" >root/absolute.csv
  mkdir -p root/mixed/cat root/mixed/dog
  cp root/photos/cat/000.png root/mixed/cat
  cp root/photos/dog/000.png root/mixed/dog
  ln -s "$PWD/outside/photos/cat/001.png" root/mixed/cat/link.png
}

plan() {
  must tl-profile model "$1" --data photos --preprocess raw,resize=32x32 --seconds 0.2 -o profile.json
  must tl-split --storage profile.json --link 10Mbit/s --head linear --cut layer2 -o "$2"
}

# server [OPTION...]: tl-extract in restricted mode, as an administrator would set it up.
server() { tl-extract --restrict "$SHARED/root" --memory-budget 4G --lease-dir leases --threads 1 "$@"; }

# ask COMMAND [PLAN]: as sshd runs it for a key with a forced command.
ask() { SSH_ORIGINAL_COMMAND=$1 run server <"${2:-$SHARED/plan.json}"; }

# expect_refused REGEX: with one line, and not one byte of data.
expect_refused() {
  [[ $status == 1 || $status == 2 ]] || fail "status $status: $COMMAND"
  expect_error "$1"
  [[ ! -s out ]] || fail "it sent something: $COMMAND"
}

# expect_features FILE: a stream with the features that are expected. Its last frame tells how long it took.
expect_features() {
  local size
  size=$(wc -c <"$SHARED/expected")
  ((size > 20000)) || fail "too little to compare"
  cmp -s -n $((size - 2000)) "$1" "$SHARED/expected" || fail "$1 holds other features than it should"
}

test_a_request_gives_what_the_command_would_give() {
  for request in 'tl-extract --plan - photos -o -' "tl-extract --plan - $SHARED/root/photos -o -" \
    '/usr/bin/tl-extract photos --output=- --plan=- --quiet' "tl-extract --plan - 'photos' -o \"-\" -q" \
    'tl-extract --plan - alias -o -' "tl-extract --plan - ./photos/../photos -o -"; do
    ask "$request"
    expect_status 0
    expect_features out
  done
  ask "tl-extract --plan - 'my photos' -o - --order listing --batch 3 --classes cat,dog --limit 3"
  expect_status 0
  ask "tl-extract --plan - inside.csv -o -"
  expect_status 0
  ask "tl-extract --plan - photos -o -" "$SHARED/outside.json"
  expect_refused 'net.pt: is not there, or not below'
}

# All files but those of the harness and the leases.
made() { find . "$SHARED/root" ! -name out ! -name err ! -path './leases*' | sort; }

test_other_commands_are_refused_with_what_is_allowed() {
  local before
  before=$(made)
  while IFS= read -r request; do
    ask "$request"
    expect_refused 'not allowed here: .*allowed is: tl-extract --plan - DATASET -o -'
  done <<'END'

cat /etc/passwd
sh -c 'tl-extract --plan - photos -o -'
tl-train --plan - -o run
tl-extract
tl-extract --plan - photos -o file
tl-extract --plan - photos -o features/
tl-extract --plan plan.json photos -o -
tl-extract --plan - - -o -
tl-extract --plan - photos -o - --json report.json
tl-extract --plan - photos -o - --model net.pt
tl-extract --plan - photos -o - --memory-budget 100G
tl-extract --plan - photos -o - --lease-dir elsewhere
tl-extract --plan - photos -o - --restrict /
tl-extract --plan - photos -o - --threads 64
tl-extract --plan - photos -o - --prune
tl-extract --plan - photos -o - --force
tl-extract --plan - photos -o - --help
tl-extract --plan - photos -o - --version
tl-extract --plan - photos photos -o -
tl-extract --plan - photos -o - --split ../outside
tl-extract --plan - photos -o - --split ..
tl-extract --model net.pt --cut layer2 photos -o -
tl-extract --cut files photos -o -
tl-extract --plan - photos -o - ; touch made
tl-extract --plan - photos -o - && touch made
tl-extract --plan - photos -o - | tee made
tl-extract --plan - photos -o - > made
tl-extract --plan - $(touch made) -o -
tl-extract --plan - `touch made` -o -
tl-extract --plan - "$(touch made)" -o -
tl-extract --plan - ${HOME} -o -
tl-extract --plan - ~ -o -
tl-extract --plan - ph* -o -
tl-extract --plan - 'photos -o -
END
  ask $'tl-extract --plan - photos -o -\ntouch made'
  expect_refused 'not allowed here'
  [[ $(made) == "$before" ]] || fail "a file was made: $(made)"
}

test_no_way_leads_out_of_the_root() {
  for data in / .. ../outside/photos photos/../../outside/photos "$SHARED/outside/photos" link "$SHARED/root-x" \
    missing /etc s3://bucket/key "'$SHARED/root/../outside/photos'"; do
    ask "tl-extract --plan - $data -o -"
    expect_refused 'is not there, or not below'
  done
  for data in relative.csv absolute.csv mixed; do
    ask "tl-extract --plan - $data -o - -q"
    [[ $status == 1 ]] || fail "status $status: $data"
    expect_error 'lies outside'
    ask "tl-extract --plan - $data -o - --keep-going"
    expect_status 3
    expect_stderr 'skipped .*lies outside'
  done
}

test_a_damaged_plan_and_a_greedy_one_are_refused() {
  head -c 300 "$SHARED/plan.json" >short.json
  ask 'tl-extract --plan - photos -o -' short.json
  expect_refused 'stdin'
  ask 'tl-extract --plan - photos -o -' /dev/null
  expect_refused 'stdin'
  "$PYTHON" - "$SHARED/plan.json" <<'END' >greedy.json || fail "no plan"
import json, sys
plan = json.load(open(sys.argv[1]))
plan["batch"] = 1048576
print(json.dumps(plan))
END
  ask 'tl-extract --plan - photos -o -' greedy.json
  expect_status 0 # with a batch that fits
  SSH_ORIGINAL_COMMAND='tl-extract --plan - photos -o -' run tl-extract --restrict "$SHARED/root" --memory-budget 50M \
    --lease-dir small <"$SHARED/plan.json"
  expect_refused 'needs .* at least'
}

test_wrong_set_ups_are_refused() {
  run tl-extract --restrict "$SHARED/root"
  expect_status 2
  expect_error '--memory-budget'
  run tl-extract --restrict "$SHARED/root" --memory-budget 1G --lease-dir leases photos -o - --plan -
  expect_status 2
  expect_error 'the other side'
  SSH_CONNECTION='::1 1 ::1 2' run server </dev/null
  expect_refused 'no command.*allowed is'
}

test_without_ssh_the_first_line_of_stdin_is_the_request() {
  { echo 'tl-extract --plan - photos -o -' && cat "$SHARED/plan.json"; } >request
  run server <request
  expect_status 0
  expect_features out
  printf 'tl-extract --plan - photos -o -' >request # no end of line
  run server <request
  expect_refused 'first line'
  head -c 70000 /dev/zero | tr '\0' x >request
  run server <request
  expect_refused 'longer than 65536'
  printf 'tl-extract --plan - photos\0 -o -\n' >request
  run server <request
  expect_refused 'zero bytes'
}

# with_socket COMMAND...: serves each connection to the socket ./s by tl-extract, as systemd does.
with_socket() {
  command -v systemd-socket-activate >/dev/null || { echo "    skipped: no systemd-socket-activate"; return 0; }
  systemd-socket-activate --inetd -a -l "$PWD/s" -E OMP_NUM_THREADS=1 "$TL_BIN/tl-extract" \
    --restrict "$SHARED/root" --memory-budget 4G --lease-dir leases --threads 1 >/dev/null 2>served &
  ACTIVATOR=$!
  trap 'kill $ACTIVATOR' EXIT
  for _ in {1..100}; do [[ -S s ]] && break; sleep 0.05; done
  "$@"
}

# A client: sends the request and the plan, says that this is all, and reads to the end.
client() {
  "$PYTHON" - "$1" "$2" <<'END' >out
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect("s")
s.sendall(sys.argv[1].encode() + b"\n" + open(sys.argv[2], "rb").read())
s.shutdown(socket.SHUT_WR)
try:
    while block := s.recv(65536):
        sys.stdout.buffer.write(block)
except ConnectionResetError:
    pass # it was refused before the plan was read
END
}

ask_by_socket() {
  client 'tl-extract --plan - photos -o -' "$SHARED/plan.json" || fail "no answer: $(<served)"
  expect_features out
  client 'tl-extract --plan - ../outside/photos -o -' "$SHARED/plan.json"
  [[ ! -s out ]] || fail "it sent something: $(<served)"
  grep -q 'not below' served || fail "no reason: $(<served)"
}

test_a_service_behind_a_socket() { with_socket ask_by_socket; }

test_the_units_are_valid() {
  command -v systemd-analyze >/dev/null || { echo "    skipped: no systemd-analyze"; return 0; }
  mkdir units
  cp "$TL_SOURCE/scripts/systemd/tl-extract.socket" units
  sed "s|@CMAKE_INSTALL_FULL_BINDIR@|$TL_BIN|" "$TL_SOURCE/scripts/systemd/tl-extract@.service.in" >units/tl-extract@.service
  run systemd-analyze verify --man=no units/tl-extract.socket units/tl-extract@x.service
  grep -E 'tl-extract' err && fail "systemd-analyze: $(<err)"
  expect_status 0
}

# ssh_host: starts sshd on loopback whose only key runs tl-extract; leaves ./config and $SSHD.
ssh_host() {
  if [[ $(id -u) != 0 ]] || ! command -v ssh >/dev/null || [[ ! -x /usr/sbin/sshd ]]; then
    echo "    skipped: needs root and openssh-server"
    return 1
  fi
  mkdir -p /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f host
  ssh-keygen -q -t ed25519 -N '' -f key
  echo "command=\"env OMP_NUM_THREADS=1 $TL_BIN/tl-extract --restrict $SHARED/root --memory-budget 4G --lease-dir $PWD/leases --threads 1\",restrict $(<key.pub)" >authorized
  local port
  port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  cat >sshd_config <<END
Port $port
ListenAddress 127.0.0.1
HostKey $PWD/host
PidFile $PWD/pid
AuthorizedKeysFile $PWD/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
END
  cat >config <<END
Host storage
  HostName 127.0.0.1
  Port $port
  User $(id -un)
  IdentityFile $PWD/key
  IdentitiesOnly yes
  UserKnownHostsFile $PWD/known
  StrictHostKeyChecking accept-new
  BatchMode yes
  LogLevel ERROR
END
  /usr/sbin/sshd -f sshd_config -E log -D &
  SSHD=$!
  for _ in {1..100}; do [[ -s pid ]] && return 0; sleep 0.05; done
  fail "no sshd: $(<log)"
}

test_through_ssh_with_a_forced_command() {
  ssh_host || return 0
  trap 'kill $SSHD' EXIT
  run ssh -F config storage tl-extract --plan - photos -o - <"$SHARED/plan.json"
  expect_status 0
  expect_features out
  run ssh -F config storage "tl-extract --plan - 'my photos' -o -" <"$SHARED/plan.json"
  expect_status 0
  run_shell "ssh -F config storage tl-extract --plan - photos -o - <$SHARED/plan.json | tl-train --plan $SHARED/plan.json - -o run --epochs 1 --model $SHARED/root/net.pt"
  expect_status 0
  run ssh -F config storage cat /etc/passwd </dev/null
  expect_status 2
  expect_refused 'allowed is: tl-extract'
  run ssh -F config storage </dev/null
  expect_status 2
  expect_refused 'no command'
  run ssh -F config storage 'tl-extract --plan - ../outside/photos -o -; touch made' <"$SHARED/plan.json"
  expect_status 2
  run ssh -F config storage tl-extract --plan - mixed -o - --keep-going <"$SHARED/plan.json"
  expect_status 3 # as it ended there
  run scp -F config storage:/etc/passwd stolen </dev/null
  [[ $status != 0 && ! -e stolen ]] || fail "scp copied a file"
}

test_a_client_that_is_killed_frees_everything() {
  ssh_host || return 0
  trap 'kill $SSHD' EXIT
  mkfifo silent
  sleep 60 >silent & # a plan that never comes: the job holds its lease
  local feeder=$!
  ssh -F config storage tl-extract --plan - photos -o - <silent >out 2>err &
  local client=$!
  for _ in {1..200}; do compgen -G 'leases/*.lease' >/dev/null && break; sleep 0.05; done
  compgen -G 'leases/*.lease' >/dev/null || fail "no lease: $(<err)"
  kill -9 "$client" "$feeder"
  wait "$client" "$feeder" 2>/dev/null
  for _ in {1..200}; do compgen -G 'leases/*.lease' >/dev/null || return 0; sleep 0.05; done
  fail "a lease is left: $(cat leases/*.lease)"
}

main "$@"
