"""Small readers and writers of the two weight formats, for the tensor types the demo model uses.

Sources: the safetensors format description (Hugging Face) and the GGUF specification, version 3
(ggml). Arrays are float32 in memory; BF16 and Q8_0 exist in files only."""

import json
import struct

import numpy as np

BLOCK = 32  # values in a Q8_0 block: one fp16 scale, then this many int8


def to_bf16(values):
    """float32 to the 16 upper bits, rounded to nearest even, as uint16."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_q8_0(values):
    """Bytes of the rows of a float32 matrix whose width is a multiple of 32."""
    blocks = values.reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    scaled = blocks * inverse
    # Halves go away from zero.
    quants = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)
    record = np.empty(len(blocks), dtype=[("scale", "<f2"), ("quants", "i1", BLOCK)])
    record["scale"] = scale[:, 0]
    record["quants"] = quants
    return record.tobytes()


def from_q8_0(data, shape):
    record = np.frombuffer(data, dtype=[("scale", "<f2"), ("quants", "i1", BLOCK)])
    values = record["scale"].astype(np.float32)[:, None] * record["quants"].astype(np.float32)
    return values.reshape(shape)


# The tensors that stay F32, as published files have them.
KEPT_F32 = ("e_score_correction_bias", "ffn_gate_inp.weight")


def write_safetensors(path, tensors):
    """tensors: name to float32 array, stored as BF16 (but see KEPT_F32) in the given order."""
    header, stored, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, values in tensors.items():
        kept = name.endswith(KEPT_F32)
        stored.append(values.astype("<f4").tobytes() if kept else to_bf16(values).tobytes())
        end = offset + len(stored[-1])
        header[name] = {"dtype": "F32" if kept else "BF16", "shape": list(values.shape),
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.write(b"".join(stored))


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "F32":
            values = np.frombuffer(data[begin:end], dtype="<f4")
        else:
            values = from_bf16(np.frombuffer(data[begin:end], dtype="<u2"))
        tensors[name] = values.reshape(entry["shape"])
    return tensors


# GGUF value types by number, with how struct packs the fixed ones.
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
PACKED = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}
TENSOR_F32, TENSOR_Q8_0 = 0, 8
ALIGNMENT = 32


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(kind, value):
    if kind == STRING:
        return _string(value)
    if isinstance(kind, tuple):  # (ARRAY, element type)
        head = struct.pack("<IQ", kind[1], len(value))
        return head + b"".join(_value(kind[1], each) for each in value)
    return struct.pack(PACKED[kind], value)


def write_gguf(path, fields, tensors):
    """fields: key to (type, value). Matrices become Q8_0 (but see KEPT_F32), vectors F32."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(fields))
    for key, (kind, value) in fields.items():
        number = kind[0] if isinstance(kind, tuple) else kind
        head += _string(key) + struct.pack("<I", number) + _value(kind, value)
    data = b""
    for name, values in tensors.items():
        is_quantised = values.ndim >= 2 and not name.endswith(KEPT_F32)
        kind = TENSOR_Q8_0 if is_quantised else TENSOR_F32
        # The dimension that is contiguous in memory comes first.
        dims = struct.pack(f"<I{values.ndim}Q", values.ndim, *reversed(values.shape))
        head += _string(name) + dims + struct.pack("<IQ", kind, len(data))
        data += to_q8_0(values) if is_quantised else values.astype("<f4").tobytes()
        data += bytes(-len(data) % ALIGNMENT)
    head += bytes(-len(head) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(head + data)


class _Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values if len(values) > 1 else values[0]

    def string(self):
        size = self.take("<Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, count = self.take("<IQ")
            return [self.value(element) for _ in range(count)]
        return self.take(PACKED[kind])


def read_gguf(path):
    """(fields, tensors) of a file that write_gguf wrote."""
    with open(path, "rb") as file:
        cursor = _Cursor(file.read())
    magic, version, tensor_count, field_count = cursor.take("<4sIQQ")
    if magic != b"GGUF" or version != 3:
        raise ValueError(f"{path}: not a GGUF file of version 3")
    fields = {}
    for _ in range(field_count):
        key = cursor.string()
        fields[key] = cursor.value(cursor.take("<I"))
    entries = []
    for _ in range(tensor_count):
        name, rank = cursor.string(), cursor.take("<I")
        shape = [cursor.take("<Q") for _ in range(rank)][::-1]
        entries.append((name, shape, *cursor.take("<IQ")))
    start = -(-cursor.at // ALIGNMENT) * ALIGNMENT
    tensors = {}
    for name, shape, kind, offset in entries:
        count = int(np.prod(shape))
        size = count // BLOCK * (2 + BLOCK) if kind == TENSOR_Q8_0 else 4 * count
        data = cursor.data[start + offset : start + offset + size]
        tensors[name] = (from_q8_0(data, shape) if kind == TENSOR_Q8_0
                         else np.frombuffer(data, dtype="<f4").reshape(shape))
    return fields, tensors
