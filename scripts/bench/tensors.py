"""Files of tensors (safetensors), as our programs write and read them."""
import json

import numpy

TYPES = {"F32": "<f4", "I64": "<i8", "U8": "u1"}


def read_tensors(path):
    """The metadata, and arrays by name that are read when they are looked at."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    metadata = header.pop("__metadata__", {})
    return metadata, {name: numpy.memmap(path, TYPES[info["dtype"]], "c", 8 + length + info["data_offsets"][0], tuple(info["shape"]))
                      for name, info in header.items() if 0 not in info["shape"]}


def write_tensors(path, shapes, pieces):
    """`shapes`: {name: (type, shape)}; `pieces`: arrays that together are their contents, in that order."""
    header, end = {}, 0
    for name, (kind, shape) in shapes.items():
        begin, end = end, end + int(numpy.prod(shape)) * numpy.dtype(TYPES[kind]).itemsize
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for piece in pieces:
            file.write(piece.tobytes())
