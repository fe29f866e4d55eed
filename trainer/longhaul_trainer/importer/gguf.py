"""Reads GGUF files, versions 2 and 3: metadata and dequantised tensors (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)."""

from __future__ import annotations

import math
import stat
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, BinaryIO

import numpy as np
import torch

from longhaul_trainer.importer.refusal import refuse_pointer, refused

# Scalar types of metadata: type number → struct format.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
# What comes before the weights: ten times the largest vocabulary that is published, and what fits into memory as Python objects.
MAX_HEADER_BYTES = 128 * 1024 * 1024
MAX_DIMENSIONS = 4
# Names of unsupported tensor types, for the message.
OTHER_TYPES = {
    3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
    19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}  # fmt: skip


@dataclass(frozen=True)
class TensorType:
    name: str
    # Number of values and bytes in a block.
    values: int
    size: int
    dtype: torch.dtype
    # uint8 [blocks, size] → values [blocks, values]
    decode: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class TensorInfo:
    # Rows first. The file stores dimensions in reverse order.
    shape: list[int]
    type: TensorType
    offset: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) // self.type.values * self.type.size


@dataclass(frozen=True)
class GgufFile:
    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    data: np.ndarray

    def text(self, name: str) -> str | None:
        return self._stated(name, "text", lambda value: isinstance(value, str))

    def integer(self, name: str) -> int | None:
        return self._stated(name, "an integer of at least 0", lambda value: _is_integer(value) and value >= 0)

    def number(self, name: str) -> float | None:
        found = self._stated(name, "a number above 0", _is_positive)
        return None if found is None else float(found)

    def texts(self, name: str) -> list[str] | None:
        return self._stated(
            name,
            "a list of texts",
            lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
        )

    def integers(self, name: str) -> list[int] | None:
        return self._stated(
            name, "a list of integers", lambda value: isinstance(value, list) and all(_is_integer(one) for one in value)
        )

    def _stated(self, name: str, what: str, fits: Callable[[Any], bool]) -> Any:
        """None where the metadata do not have it."""
        found = self.metadata.get(name)
        if found is None or fits(found):
            return found
        raise refused(
            f"Expected {name} in the metadata of {self.path} to be {what}, found {shortened(found)}: convert the model again"
        )

    def read(self, name: str) -> torch.Tensor:
        info = self.tensors[name]
        kind = info.type
        blocks = self.data[info.offset : info.offset + info.bytes].reshape(-1, kind.size)
        numbers = torch.from_numpy(np.array(kind.decode(blocks)).reshape(info.shape))
        # numpy has no bfloat16, so `decode` returns its bits.
        return numbers.view(torch.bfloat16) if kind.dtype is torch.bfloat16 else numbers


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def open_gguf_file(path: Path) -> GgufFile:
    """Raises JobError 66 for a file that is truncated, damaged, big-endian, split into parts, or has an unsupported tensor type."""
    found = path.stat()
    # A pipe would be waited for, possibly forever.
    if not stat.S_ISREG(found.st_mode):
        raise refused(f"Expected a GGUF file at {path}, which is a pipe or a device: save it to a file first")
    size = found.st_size
    with path.open("rb") as stream:
        file = _Reader(stream, path, size)
        if file.take(4) != b"GGUF":
            refuse_pointer(path)
            raise refused(f"Expected a GGUF file, {path} begins otherwise")
        version = file.number("I")
        if version not in (2, 3):
            raise refused(
                f"Expected GGUF of version 2 or 3 with little-endian numbers in {path}, found {version}: convert the model again"
            )
        tensor_count, metadata_count = file.number("Q"), file.number("Q")
        entries = ((file.string(), file.value(file.number("I"))) for _ in range(file.bounded(metadata_count, 13)))
        metadata = _once(entries, "the key", path)
        if (parts := GgufFile(path, metadata, {}, _NO_DATA).integer("split.count") or 0) > 1:
            raise refused(
                f"Expected a GGUF in one file, {path} is one of {parts}: join them with llama-gguf-split --merge"
            )
        tensors = _once((_tensor(file) for _ in range(file.bounded(tensor_count, 24))), "the tensor", path)
        alignment = GgufFile(path, metadata, {}, _NO_DATA).integer("general.alignment")
        alignment = 32 if alignment is None else alignment
        if alignment < 1 or alignment & (alignment - 1):
            raise refused(
                f"Expected general.alignment in the metadata of {path} to be a power of two, found {alignment}: it is damaged, get it again"
            )
        begin = -(-stream.tell() // alignment) * alignment
    if begin > size:
        raise refused(f"Expected tensors in {path}, it ends before them: get the file again")
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=0)[begin:]
    _check_places(tensors, alignment, begin, size, path)
    return GgufFile(path=path, metadata=metadata, tensors=tensors, data=data)


_NO_DATA = np.empty(0, dtype=np.uint8)


def _once(entries: Iterable[tuple[str, Any]], what: str, path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in entries:
        if name in found:
            raise refused(f"Expected {what} {name!r:.80} once in {path}, found it twice: it is damaged, get it again")
        found[name] = value
    return found


def _check_places(tensors: dict[str, TensorInfo], alignment: int, begin: int, size: int, path: Path) -> None:
    free = 0
    for name, info in sorted(tensors.items(), key=lambda entry: entry[1].offset):
        if info.offset % alignment or info.offset < free:
            why = f"no multiple of {alignment}" if info.offset % alignment else "within the tensor before it"
            raise refused(
                f"Expected {name!r:.80} in {path} at a place of its own, found it at {info.offset}, {why}: it is damaged, get it again"
            )
        free = info.offset + info.bytes
        if begin + free > size:
            raise refused(
                f"Expected {begin + free} bytes in {path} for {name!r:.80}, found {size}: the file is cut, get it again"
            )


@dataclass
class _Reader:
    stream: BinaryIO
    path: Path
    size: int

    def take(self, count: int) -> bytes:
        if count > self.size - self.stream.tell():
            raise refused(
                f"Expected more in {self.path} than its {self.size} bytes: the file is cut or damaged, get it again"
            )
        if self.stream.tell() + count > MAX_HEADER_BYTES:
            raise refused(
                f"Expected at most {MAX_HEADER_BYTES} bytes of metadata in {self.path}: it is damaged, get it again"
            )
        return self.stream.read(count)

    def number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(kind)))[0]

    def string(self) -> str:
        at = self.stream.tell()
        try:
            return self.take(self.number("Q")).decode("utf-8")
        except UnicodeDecodeError as error:
            raise refused(
                f"Expected text in UTF-8 at byte {at} of {self.path}: {error.reason}. It is damaged, get it again"
            ) from error

    def bounded(self, count: int, least: int) -> int:
        """Checks a count of entries that take at least `least` bytes each against the file's size."""
        if count * least > self.size:
            raise refused(
                f"Expected {count} entries in {self.path}, which has {self.size} bytes: it is damaged, get it again"
            )
        return count

    def value(self, kind: int) -> Any:
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner = self.number("I")
            count = self.number("Q")
            if inner in NUMBERS:
                form = NUMBERS[inner]
                self.bounded(count, struct.calcsize(form))
                return list(struct.unpack(f"<{count}{form}", self.take(count * struct.calcsize(form))))
            if inner == STRING:
                return [self.string() for _ in range(self.bounded(count, 8))]
        raise refused(
            f"Expected metadata of a known type in {self.path}, found type {kind}: it is damaged, get it again"
        )


def _tensor(file: _Reader) -> tuple[str, TensorInfo]:
    name = file.string()
    dimensions = file.number("I")
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise refused(
            f"Expected 1 to {MAX_DIMENSIONS} dimensions of {name!r:.80} in {file.path}, found {dimensions}: it is damaged, get it again"
        )
    shape = [file.number("Q") for _ in range(dimensions)][::-1]
    number, offset = file.number("I"), file.number("Q")
    kind = TYPES.get(number)
    if kind is None:
        known = ", ".join(entry.name for entry in TYPES.values())
        raise refused(
            f"Expected tensors of {known} in {file.path}, {name!r:.80} is {OTHER_TYPES.get(number, f'type {number}')}: take a GGUF of one of these types, F16 or BF16 where there is one"
        )
    if 0 in shape or shape[-1] % kind.values != 0:
        raise refused(
            f"Expected rows of {name!r:.80} in {file.path} to be whole blocks of {kind.values}, found {shape}: it is damaged"
        )
    return name, TensorInfo(shape=shape, type=kind, offset=offset)


def _half(blocks: np.ndarray, at: int) -> np.ndarray:
    """The float16 at byte `at` of each block, as float32 [blocks, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _q8_0(blocks: np.ndarray) -> np.ndarray:
    return _half(blocks, 0) * np.ascontiguousarray(blocks[:, 2:]).view(np.int8)


def _q4_0(blocks: np.ndarray) -> np.ndarray:
    packed = blocks[:, 2:]
    return _half(blocks, 0) * (np.concatenate((packed & 15, packed >> 4), axis=1).astype(np.int8) - 8)


def _scales(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Twelve bytes hold eight scales and eight minima of six bits each."""
    low, high, rest = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate((low & 63, (rest & 15) | ((low >> 6) << 4)), axis=1)
    minima = np.concatenate((high & 63, (rest >> 4) | ((high >> 6) << 4)), axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _with_minima(blocks: np.ndarray, values: np.ndarray) -> np.ndarray:
    """values: [blocks, 8, 32], of Q4_K and Q5_K."""
    scales, minima = _scales(blocks[:, 4:16])
    scaled = (_half(blocks, 0) * scales)[:, :, None] * values
    return (scaled - (_half(blocks, 2) * minima)[:, :, None]).reshape(len(blocks), 256)


def _nibbles(packed: np.ndarray, width: int) -> np.ndarray:
    """[blocks, n] → [blocks, 2 · n / width, width]: of each `width` bytes, the low nibbles, then the high nibbles."""
    groups = packed.reshape(len(packed), -1, 1, width)
    return np.concatenate((groups & 15, groups >> 4), axis=2).reshape(len(packed), -1, width)


def _q4_k(blocks: np.ndarray) -> np.ndarray:
    return _with_minima(blocks, _nibbles(blocks[:, 16:], 32).astype(np.float32))


def _q5_k(blocks: np.ndarray) -> np.ndarray:
    fifth = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    return _with_minima(blocks, (_nibbles(blocks[:, 48:], 32) | (fifth << 4)).astype(np.float32))


def _q6_k(blocks: np.ndarray) -> np.ndarray:
    low = _nibbles(blocks[:, :128], 64).reshape(len(blocks), 8, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = ((blocks[:, 128:192].reshape(len(blocks), 2, 1, 32) >> shifts) & 3).reshape(len(blocks), 8, 32)
    values = (low | (high << 4)).astype(np.int8).reshape(len(blocks), 16, 16) - 32
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    return ((_half(blocks, 208) * scales)[:, :, None] * values).reshape(len(blocks), 256)


def _as(dtype: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda blocks: np.ascontiguousarray(blocks).view(dtype)


# Dequantised weights are float32, which represents them exactly.
TYPES = {
    0: TensorType("F32", 1, 4, torch.float32, _as("<f4")),
    1: TensorType("F16", 1, 2, torch.float16, _as("<f2")),
    30: TensorType("BF16", 1, 2, torch.bfloat16, _as("<i2")),
    8: TensorType("Q8_0", 32, 34, torch.float32, _q8_0),
    2: TensorType("Q4_0", 32, 18, torch.float32, _q4_0),
    12: TensorType("Q4_K", 256, 144, torch.float32, _q4_k),
    13: TensorType("Q5_K", 256, 176, torch.float32, _q5_k),
    14: TensorType("Q6_K", 256, 210, torch.float32, _q6_k),
}
