"""Checks the header of a batch's safetensors file before mapping it.

The safetensors reader accepts duplicate names and misaligned tensors, so this module checks names, order, types, shapes and
alignment.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from longhaul_trainer.failures import BATCH_REFUSED, JobError

DTYPES = {"I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "F32": np.dtype("<f4"), "U8": np.dtype("u1")}
# Tensors in the order of the file, with dtype and length; R1 = rows + 1.
LAYOUT = {
    "row_offsets": ("I64", "R1"),
    "row_trajectory": ("I32", "R"),
    "input_ids": ("I32", "T"),
    "behaviour_logprobs": ("F32", "T"),
    "advantages": ("F32", "T"),
    "policy_version": ("I32", "T"),
    "loss_mask": ("U8", "T"),
}
RFT_OPTIONAL = {"behaviour_logprobs", "policy_version"}
ALIGNMENT = 64
MAX_HEADER = 1 << 20


def refuse(message: str) -> JobError:
    return JobError(BATCH_REFUSED, message)


def map_tensors(path: Path, *, stage: str, rows: int, tokens: int) -> dict[str, np.ndarray[Any, Any]]:
    """Memory-maps the tensors of the stage. Raises JobError 65."""
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MAX_HEADER + 1
        if length > min(MAX_HEADER, size - 8):
            raise refuse(f"Expected a safetensors header in {path.name}, got length {length} of {size} bytes")
        header = _parse_header(file.read(length), path)
    start = 8 + length
    if start % ALIGNMENT:
        raise refuse(f"Expected the data of {path.name} to begin at a multiple of {ALIGNMENT}, got {start}")
    _check_names(header, stage)
    sizes = {"R1": rows + 1, "R": rows, "T": tokens}
    places: dict[str, tuple[np.dtype[Any], int, int]] = {}
    at = 0
    for name, entry in header.items():
        dtype_name, axis = LAYOUT[name]
        dtype, count = DTYPES[dtype_name], sizes[axis]
        expected = {"dtype": dtype_name, "shape": [count], "data_offsets": [at, at + count * dtype.itemsize]}
        if entry != expected:
            raise refuse(f"Expected tensor {name} to be {expected}, found {entry}")
        places[name] = (dtype, start + at, count)
        at += count * dtype.itemsize
    if start + at != size:
        raise refuse(f"Expected {path.name} to have {start + at} bytes, found {size}")
    return {
        name: np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=(count,))
        for name, (dtype, offset, count) in places.items()
    }


def _parse_header(data: bytes, path: Path) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise refuse(f"Expected each name once in the header of {path.name}, found twice: {', '.join(twice)}")
        return dict(pairs)

    try:
        header = json.loads(data, object_pairs_hook=unique)
    except ValueError as error:
        raise refuse(f"Expected JSON in the header of {path.name}: {error}") from error
    if not isinstance(header, dict):
        raise refuse(f"Expected an object in the header of {path.name}")
    header.pop("__metadata__", None)
    return header


def _check_names(header: dict[str, Any], stage: str) -> None:
    allowed = [name for name in LAYOUT if not (stage == "rft" and name == "advantages")]
    optional = RFT_OPTIONAL if stage == "rft" else set()
    expected = [name for name in allowed if name in header or name not in optional]
    if list(header) != expected:
        raise refuse(f"Expected the tensors of stage {stage} in the order {expected}, found {list(header)}")
