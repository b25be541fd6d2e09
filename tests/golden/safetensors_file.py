"""Reads and writes .safetensors files that hold float32 tensors.

Layout: 8 bytes little-endian length of the header, the header (JSON: name -> dtype, shape and the
byte range in the data that follows), padded with spaces to a multiple of 8, then the tensors.
"""

import array
import json
import math
import struct
import sys

FLOAT_BYTES = 4


def _little_endian(values):
    if sys.byteorder != "little":
        values.byteswap()
    return values


def write(path, tensors):
    """Writes {name: (shape, flat list of floats)} in the dictionary's order."""
    header = {}
    data = bytearray()
    for name, (shape, values) in tensors.items():
        assert len(values) == math.prod(shape), name
        begin = len(data)
        data += _little_endian(array.array("f", values)).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    """Returns {name: (shape, flat array of floats)} in the file's order."""
    with open(path, "rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] != "F32" or end - begin != FLOAT_BYTES * math.prod(entry["shape"]):
            raise ValueError(f"{path}: {name}: not a whole float32 tensor: {entry}")
        values = array.array("f")
        values.frombytes(data[begin:end])
        tensors[name] = (entry["shape"], _little_endian(values))
    return tensors
