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


def scale_shape(shape):
    """Of the scales of a record, by the rule of the page."""
    sequence = len(shape) == 2
    channels = shape[-1] if sequence else shape[0]
    one = [1] * len(shape)
    if len(shape) < 2 or np.prod(shape) // channels < 16:
        return one
    one[-1 if sequence else 0] = channels
    return one


def unpack(metadata, tensors):
    """Puts the tensors of a compressed shard where those of a plain one are."""
    rows = int(metadata["rows"])
    offset, frames = tensors["zstd_offset"], tensors["zstd"].tobytes()
    assert len(offset) == rows + 1
    # Frames back to back are decompressed to their contents back to back.
    content = subprocess.run(["zstd", "-dcq"], input=frames, stdout=subprocess.PIPE, check=True).stdout
    row = np.frombuffer(content, "u1").reshape(rows, -1)
    at = 0

    def take(shape, dtype):
        nonlocal at
        size, count = np.dtype(dtype).itemsize, int(np.prod(shape))
        planes = row[:, at : at + size * count].reshape(rows, size, count)
        at += size * count
        return np.ascontiguousarray(planes.transpose(0, 2, 1)).view(dtype).reshape(rows, *shape)

    for value in json.loads(metadata["values"]):
        dtype = TYPES[value["dtype"].upper()]
        tensors[value["tensor"]] = take(value["shape"], dtype)
        if "scale" in value:
            tensors[value["scale"]] = take(scale_shape(value["shape"]), "<f4")
    assert at == row.shape[1]


def decode(value, tensors):
    tensor = tensors[value["tensor"]]
    if value["dtype"] == "bf16":
        return (tensor.astype("u4") << 16).view("f4")
    if "scale" not in value:
        return tensor
    assert tensor.dtype == np.int8 and tensors[value["scale"]].shape[1:] == tuple(scale_shape(value["shape"]))
    return tensor * tensors[value["scale"]]


def check_numbers(codec, have, want):
    assert have.shape == want.shape
    if codec == "fp32":
        assert (have == want).all()
    elif codec == "bf16":
        assert (abs(have - want) <= abs(want) / 256).all() and (have != want).any()
    else:
        flat = want.reshape(len(want), 2, -1) if want.ndim == 4 else want.reshape(len(want), 1, -1)
        scale = abs(flat).max(axis=2, keepdims=True) / 127
        assert (abs(have.reshape(flat.shape) - flat) <= scale * 0.5001).all() and (have != want).any()


def check(metadata, tensors, first, codec="fp32"):
    rows = int(metadata["rows"])
    assert metadata["format"] == "tl-shard" and metadata["version"] == "1" and metadata["payload"] == "values"
    assert metadata["codec"] == codec.split("+")[0]
    assert metadata.get("compression", "") == codec[len(metadata["codec"]) + 1 :]
    if "compression" in metadata:
        unpack(metadata, tensors)
    values = {v["name"]: decode(v, tensors) for v in json.loads(metadata["values"])}
    assert list(values) == ["layer3.5", "label", "map"]
    r = np.arange(first, first + rows)
    small = values["label"]
    want = (r[:, None] + np.arange(15) / 16).reshape(rows, 3, 5).astype("f4")
    check_numbers(metadata["codec"], values["layer3.5"], want)
    want = ((r[:, None] + 1) * (np.arange(32) - 16) / 8).reshape(rows, 2, 4, 4).astype("f4")
    check_numbers(metadata["codec"], values["map"], want)
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
        keys = {}
        for codec in ("fp32", "fp32+zstd", "bf16", "bf16+zstd", "int8", "int8+zstd"):
            path = f"{folder}/{codec}.safetensors"
            metadata, tensors = read_shard(path)
            assert check(metadata, tensors, 0, codec) == 70 and metadata["skipped"] == "2"
            keys[codec] = metadata["key"]
            (length,) = struct.unpack_from("<Q", open(path, "rb").read())
            assert (8 + length) % 64 == 0
        assert all(keys[name] == keys[name.split("+")[0]] for name in keys) and len(set(keys.values())) == 3
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
