#!/bin/bash
# Data sets in tars: the same features as from the unpacked folder, and no tar that is cut, damaged or badly
# packed passes for a whole one.
. "$(dirname "$0")/lib.sh"

HOW=raw,resize=32x32

setup() {
  pictures photos 6 cat dog
  mkdir photos/dog/old && mv photos/dog/005.png photos/dog/old
  touch photos/cat/._000.png photos/.DS_Store
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
  tar cf photos.tar photos
  # samples FOLDER: WebDataset shards of the pictures, three samples each, labelled by name
  cat >samples.py <<'END'
import io, os, sys, tarfile
files = sorted(os.path.join(top, name) for top, _, names in os.walk(sys.argv[1]) for name in names if name[0] != ".")
for shard in range(0, len(files), 3):
    with tarfile.open(f"{sys.argv[2]}-{shard // 3:03}.tar", "w") as tar:
        for number, path in enumerate(files[shard : shard + 3]):
            label = path[len(sys.argv[1]) + 1 :].split("/")[0].encode()
            for extension, data in ("png", open(path, "rb").read()), ("cls", label):
                info = tarfile.TarInfo(f"{shard + number:06}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
END
  mkdir shards
  must "$PYTHON" samples.py photos shards/train
  must_extract photos -o expected
}

# extract [OPTION...]: at layer2 of the shared network.
extract() { run tl-extract --model "$SHARED/net.pt" --cut layer2 --preprocess "$HOW" "$@"; }

must_extract() {
  extract "$@"
  expect_status 0
}

# ids STREAM: of the records of a file.safetensors, one a line as Python bytes.
ids() {
  "$PYTHON" - "$1" <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
(length,) = struct.unpack_from("<Q", data)
header = json.loads(data[8 : 8 + length])
def tensor(name):
    begin, end = header[name]["data_offsets"]
    return data[8 + length + begin : 8 + length + end]
offset = struct.unpack(f"<{header['id_offset']['shape'][0]}q", tensor("id_offset"))
print(*(tensor("id")[a:b] for a, b in zip(offset, offset[1:])), sep="\n")
END
}

# expect_features FOLDER: those of the unpacked folder, byte for byte.
expect_features() { diff -r "$SHARED/expected" "$1" >&2 || fail "$1 holds other features than the folder gives"; }

test_features_are_those_of_the_folder() {
  cp -r "$SHARED/photos" .
  tar cf gnu.tar photos
  tar cf pax.tar --format=posix -C photos .
  tar czf ustar.tar.gz --format=ustar photos/cat photos/dog
  "$PYTHON" -m tarfile -c python.txz photos
  tar c photos/dog photos/cat | zstd -q >zstd.tar.zst
  for file in gnu.tar pax.tar ustar.tar.gz python.txz zstd.tar.zst; do
    must_extract "$file" -o "of $file"
    expect_features "of $file"
    expect_stderr 'hidden name'
  done
  mv ustar.tar.gz nameless
  must_extract nameless -o nameless.out
  expect_features nameless.out
}

test_features_through_a_pipe() {
  run_shell "tar c -C '$SHARED' photos | tl-extract --model '$SHARED/net.pt' --cut layer2 --preprocess $HOW --data-format tar - -o pipe"
  expect_status 0
  expect_features pipe
  run_shell "tar cz -C '$SHARED' photos | tl-extract --model '$SHARED/net.pt' --cut layer2 --preprocess $HOW --data-format tar - -o packed"
  expect_status 0
  expect_features packed
  must_extract --data-format tar <(cat "$SHARED/photos.tar") -o named
  expect_features named
  run_shell "cat '$SHARED/photos.tar' | tl-extract --cut files - -o files.safetensors"
  expect_status 0
  expect_stderr 'stdin|packed folder'
  run_shell "cat '$SHARED/photos.tar' | tl-extract --cut files --data-format list0 - -o made"
  expect_status 2
  expect_error 'stdin: is a tar, not a list'
}

test_a_plain_tar_on_disk_is_not_copied() {
  TMPDIR=/nowhere must_extract "$SHARED/photos.tar" -o features
  expect_features features
  gzip -c "$SHARED/photos.tar" >photos.tar.gz
  TMPDIR=/nowhere extract photos.tar.gz -o made
  expect_status 1
  expect_error '/nowhere.*TMPDIR.*No such file'
}

test_webdataset_shards() {
  tl-extract -q --cut files "$SHARED/photos" -o folder.safetensors || fail "folder"
  ids folder.safetensors | sed 's,.*/,,' >names
  for set in "$SHARED/shards" "$SHARED/shards/train-{000..003}.tar"; do
    run tl-extract --cut files "$set" -o samples.safetensors
    expect_status 0
    expect_stderr 'WebDataset samples because of 000000.cls'
    ids samples.safetensors >out
    [[ $(sed -n 5p out) == "b'train-001/000004.png'" ]] || fail "wrong ids: $(<out)"
    rm samples.safetensors
  done
  # The same pictures and labels: nothing to compute after the folder.
  cp -r "$SHARED/expected" features
  must_extract "$SHARED/shards" -o features --json report.json
  expect_json report.json 'd["kept"] == 12 and d["computed"] == 0 and d["changes"]["relabelled"] == 0'
}

test_a_feeder_that_fails_or_stops_is_an_error() {
  local size
  size=$(wc -c <"$SHARED/photos.tar")
  # Inside a member, exactly after members, and before all of the end.
  for keep in 700 $((size / 3)) $((size / 3 / 512 * 512)) $((size - 10240)) 0; do
    for format in tar auto; do
      ((keep == 0)) && [[ $format == auto ]] && continue # an empty list
      run_shell "(head -c $keep '$SHARED/photos.tar'; exit 1) | tl-extract --cut files --data-format $format - -o made"
      expect_status 1
      expect_error '^tl-extract: error: stdin: '
      expect_absent made
    done
  done
  run_shell "(echo 'Warning: about to start'; cat '$SHARED/photos.tar') | tl-extract --cut files --data-format tar - -o made"
  expect_status 1
  expect_error "begins with 'Warning: about to start'"
  run_shell "(echo 'Warning: about to start'; cat '$SHARED/photos.tar') | tl-extract --cut files - -o made"
  expect_status 1
  expect_error "text stands before a tar: 'Warning: about to start'"
  "$PYTHON" - "$SHARED/shards/train-000.tar" <<'END' || fail "no boundary.tar" # one sample of three
import sys, tarfile
end = tarfile.open(sys.argv[1]).getmembers()[2].offset
open("boundary.tar", "wb").write(open(sys.argv[1], "rb").read(end))
END
  tar tf boundary.tar >out 2>err || fail "tar complains, so this tests little"
  run tl-extract --cut files boundary.tar -o made
  expect_status 1
  expect_error 'boundary.tar: .*zeros that end an archive.* 1 sample'
  expect_absent made
}

test_a_killed_feeder_is_an_error_and_leaves_nothing() {
  mkdir tmp && mkfifo pipe
  { head -c 5000 "$SHARED/photos.tar"; exec sleep 60; } >pipe &
  feeder=$!
  TMPDIR=$PWD/tmp tl-extract --cut files --data-format tar pipe -o made 2>err &
  reader=$!
  for _ in {1..200}; do
    [[ -n $(find "/proc/$reader/fd" -lname "$PWD/tmp/*" 2>/dev/null) ]] && break
    sleep 0.02
  done
  [[ -z $(ls -A tmp) ]] || fail "the temporary file has a name: $(ls -A tmp)"
  kill -9 "$feeder"
  wait "$feeder" 2>/dev/null
  status=0
  wait "$reader" || status=$?
  COMMAND='tl-extract of a killed feeder'
  expect_status 1
  expect_error 'pipe: byte .*cut off'
  expect_absent made
  [[ -z $(ls -A tmp) ]] || fail "left behind: $(ls -A tmp)"
}

test_a_full_disk_is_an_error() {
  gzip -c "$SHARED/photos.tar" >photos.tar.gz
  # A limit on the size of files, without the signal that comes with it, is a small disk.
  run_shell "trap '' XFSZ; ulimit -f 8; exec tl-extract --cut files photos.tar.gz -o /dev/null"
  expect_status 1
  expect_error 'write temporary file in .*TMPDIR.*: File too large'
}

test_labels_and_damage_of_samples() {
  # pack [NAME CONTENT]...: as set.tar, in this order.
  pack() {
    "$PYTHON" - "$@" <<'END'
import io, sys, tarfile
with tarfile.open("set.tar", "w") as tar:
    for name, data in zip(sys.argv[1::2], sys.argv[2::2]):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data.encode()))
END
  }
  pack 000.jpg x 001.jpg x 000.cls 0 001.cls 1
  run tl-extract --cut files set.tar -o made
  expect_status 1
  expect_error "set.tar: after 2 samples the key '000' comes back .*--sort=name"
  pack 000.jpg x 000.cls 0 001.jpg x
  run tl-extract --cut files set.tar -o made
  expect_status 1
  expect_error "'001' .*has no label.*--missing=skip"
  expect_absent made
  must tl-extract --cut files --missing skip set.tar -o made.safetensors
  expect_stderr '1 without a label left out'
  [[ $(ids made.safetensors) == "b'000.jpg'" ]] || fail "wrong records"
  run tl-extract --cut files --missing ignore set.tar -o made
  expect_status 2
}

test_damaged_pictures_are_skipped_as_in_a_folder() {
  cp -r "$SHARED/photos" .
  truncate -s 500 photos/cat/002.png
  : >photos/cat/003.png
  tar cf damaged.tar photos
  extract -q damaged.tar -o made
  expect_status 1
  expect_error 'cat/002.png'
  extract damaged.tar -o made --keep-going --json report.json
  expect_status 3
  expect_json report.json '[s["id"] for s in d["skipped"]] == ["cat/002.png", "cat/003.png"] and d["records"] == 10'
}

test_names_and_holes_survive_the_tar() {
  mkdir -p odd/a odd/b
  names=('my cat' $'a\nb' -n $'caf\xc3\xa9' $'cafe\xcc\x81' $'\xff' "$(printf 'long%.0s' {1..50})")
  for name in "${names[@]}"; do printf '%s' "$name" >"odd/a/$name"; done
  { printf 'P6 200 200 255 '; head -c 120000 /dev/zero; } >whole
  cp --sparse=always whole odd/b/black.ppm
  tl-extract -q --cut files odd -o folder.safetensors || fail "folder"
  [[ $(ids folder.safetensors | wc -l) == 8 ]] || fail "not all of the folder"
  for way in --format=gnu '--format=gnu -S' --format=posix '--format=posix -S --sparse-version=0.0' \
    '--format=posix -S --sparse-version=0.1' '--format=posix -S --sparse-version=1.0'; do
    # shellcheck disable=SC2086 # options
    tar c $way -f odd.tar odd
    must tl-extract -q --cut files odd.tar -o packed.safetensors
    expect_same folder.safetensors packed.safetensors
    rm packed.safetensors
  done
  "$PYTHON" -m tarfile -c odd.tar odd
  must tl-extract -q --cut files odd.tar -o packed.safetensors
  expect_same folder.safetensors packed.safetensors
}

test_training_and_measuring_on_tars() {
  train() {
    run tl-train --model "$SHARED/net.pt" --preprocess "$HOW" --head linear --epochs 2 --cache 0 "$@"
    expect_status 0
  }
  train --data "$SHARED/photos" -o folder
  train --data "$SHARED/photos.tar" -o packed
  train --data - --data-format tar -o pipe <"$SHARED/photos.tar"
  train --data "$SHARED/shards" --missing error -o samples --json samples.json
  for how in packed pipe; do expect_same folder/model.pt "$how/model.pt"; done
  expect_json samples.json '[sum(n) for n in zip(*(d["records"][of] for of in ("training", "validation")))] == [6, 6]'
  must tl-profile data "$SHARED/photos.tar" --preprocess "$HOW"
  expect_json out 'd["data"]["records"] == 12 and d["data"]["classes"] == 2 and d["data"]["decode_seconds"] > 0'
}

test_what_is_no_tar_is_named() {
  "$PYTHON" -c 'import zipfile; zipfile.ZipFile("photos.zip", "w").writestr("a/1.png", "x")'
  run tl-extract --cut files photos.zip -o made
  expect_status 1
  expect_error 'photos.zip: is a zip archive'
  head -c 3000 /dev/urandom | gzip >noise.tar.gz
  run tl-extract --cut files noise.tar.gz -o made
  expect_status 1
  expect_error 'noise.tar.gz: is no tar'
  : >empty.tar
  run tl-extract --cut files --data-format tar empty.tar -o made
  expect_status 1
  expect_error 'empty.tar: is empty'
  run tl-extract --cut files 'x-{000..002}.tar' -o made
  expect_status 1
  expect_error 'x-000.tar: No such file'
}

main "$@"
