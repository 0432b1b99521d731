#!/usr/bin/python3
"""Reads what tl-shard-sample wrote by the specification, with the example of its page, and
recomputes every value. Usage: shard_test.py TL_SHARD_SAMPLE"""
import json, pathlib, re, struct, subprocess, sys, tempfile
import numpy as np

page = pathlib.Path(__file__).parents[2] / "man" / "tl-formats.5"
exec(re.search(r"\.Bd -literal.*?\n(.*?def read_shard.*?)\n\.Ed", page.read_text(), re.S)[1])


def read_stream(data):
    assert data[:8] == b"\x89TLS\r\n\x1a\n" and struct.unpack_from("<I", data, 8) == (1,)
    at, frames = 12, []
    while at < len(data):
        tag, length = struct.unpack_from("<4sQ", data, at)
        frames.append((tag, data[at + 12 : at + 12 + length]))
        at += 12 + length + 16
    assert at == len(data)
    return frames


def check(metadata, tensors, first):
    rows = int(metadata["rows"])
    assert metadata["format"] == "tl-shard" and metadata["version"] == "1" and metadata["payload"] == "values"
    values = {v["name"]: tensors[v["tensor"]] for v in json.loads(metadata["values"])}
    assert list(values) == ["layer3.5", "label"]
    r = np.arange(first, first + rows)
    floats, small = values["layer3.5"], values["label"]
    assert floats.shape == (rows, 3, 5) and small.shape == (rows, 7)
    assert (floats.reshape(rows, 15) == r[:, None] + np.arange(15) / 16).all()
    assert (small == (3 * r[:, None] + np.arange(7)) % 256).all()
    assert (tensors["label"] == r % 5 - 1).all() and (tensors["row"] == 2 * r).all()
    offset, text = tensors["id_offset"], tensors["id"].tobytes()
    for i, number in enumerate(map(int, r)):
        high, low = number << 32, number * 0x0102030405060708
        assert tensors["record"][i].tobytes().hex() == f"{high:016x}{low:016x}"
        assert text[offset[i] : offset[i + 1]] == b"d/" + b"\xfe" * (number % 3) + str(number).encode()
    assert json.loads(metadata["classes"]) == ["cat", "dog", "caf\u00e9", "\\xff\\x5c"]
    return rows


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        metadata, tensors = read_shard(folder + "/sample.safetensors")
        assert check(metadata, tensors, 0) == 70 and metadata["skipped"] == "2"
        (length,) = struct.unpack_from("<Q", open(folder + "/sample.safetensors", "rb").read())
        assert (8 + length) % 64 == 0
        frames = read_stream(open(folder + "/sample.stream", "rb").read())
        assert frames[0][0] == b"META" and json.loads(frames[0][1])["expected"] == "70"
        done = 0
        for tag, payload in frames[1:-1]:
            assert tag == b"SHRD"
            pathlib.Path(folder, "frame").write_bytes(payload)
            done += check(*read_shard(folder + "/frame"), done)
        assert frames[-1][0] == b"DONE"
        end = json.loads(frames[-1][1])
        assert (end["records"], end["skipped"], end["shards"]) == (70, 2, len(frames) - 2) and done == 70
    print("70 rows agree in the file and in the stream")


main()
