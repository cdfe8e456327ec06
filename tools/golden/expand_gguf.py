"""Writes a GGUF file anew with its Q4_1 and Q8_0 weights as F32: the same values.

Engines round activations to bytes for products with such weights, each in its own way. With these
files they have nothing to round, and what is left between two of them is float arithmetic.
"""

import struct

import numpy as np

ALIGNMENT = 32
F32 = 0
# The sizes of values by type; strings (8) and arrays (9) say their own.
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
ROPE_BASE = "llama.rope.freq_base"


def q4_1(data):
    blocks = np.frombuffer(data, np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]))
    q = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1).astype(np.float32)
    return q * blocks["d"].astype(np.float32)[:, None] + blocks["m"].astype(np.float32)[:, None]


def q8_0(data):
    blocks = np.frombuffer(data, np.dtype([("d", "<f2"), ("q", "i1", 32)]))
    return blocks["q"] * blocks["d"].astype(np.float32)[:, None]


# By type: bytes of a block, its values, and how they are read.
TYPES = {F32: (4, 1, lambda data: np.frombuffer(data, "<f4")), 3: (20, 32, q4_1), 8: (34, 32, q8_0)}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def string(self):
        size = self.take("Q")
        self.at += size
        return bytes(self.data[self.at - size:self.at]).decode()

    def skip(self, kind):
        if kind == 8:
            self.string()
        elif kind == 9:
            element, count = self.take("I"), self.take("Q")
            if element in SCALARS:
                self.at += count * SCALARS[element]
            else:
                for _ in range(count):
                    self.skip(element)
        else:
            self.at += SCALARS[kind]


def expand(source, target, rope_factor=1.0):
    """With another rope_factor the base of rotary positions is wrong by that much."""
    data = memoryview(source.read_bytes())
    reader = Reader(data)
    magic, version, tensors, pairs = reader.take("4sIQQ")
    if (magic, version) != (b"GGUF", 3):
        raise ValueError(f"{source}: no GGUF file of version 3")
    rope = None
    for _ in range(pairs):
        key, kind = reader.string(), reader.take("I")
        if key == ROPE_BASE:
            rope = reader.at
        reader.skip(kind)
    head = bytearray(data[:reader.at])
    (base,) = struct.unpack_from("<f", head, rope)
    struct.pack_into("<f", head, rope, base * rope_factor)

    infos, reads, offset = bytearray(), [], 0
    for _ in range(tensors):
        begin = reader.at
        reader.string()
        shape = [reader.take("Q") for _ in range(reader.take("I"))]
        infos += data[begin:reader.at]
        kind, at = reader.take("IQ")
        size, values, read = TYPES[kind]
        count = int(np.prod(shape))
        infos += struct.pack("<IQ", F32, offset)
        reads.append((at, count // values * size, read))
        offset += -(-4 * count // ALIGNMENT) * ALIGNMENT
    first = -(-reader.at // ALIGNMENT) * ALIGNMENT

    with open(target, "wb") as file:
        def pad():
            file.write(bytes(-file.tell() % ALIGNMENT))
        file.write(head)
        file.write(infos)
        pad()
        for at, size, read in reads:
            file.write(read(data[first + at:first + at + size]).tobytes())
            pad()
