"""Weights on disk by the model's own names, read in slices: a training rank reads only its own rows."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from longhaul_trainer.directory import json_bytes, share
from longhaul_trainer.parallel.shard import local_rows

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
# Largest file of weights that an export or import writes, and the most that it holds in memory at once.
SHARD_BYTES = 5 * 1000**3


@dataclass
class WeightFiles:
    """`places`: tensor name → (file, key) of each part, in order of rows. Reading is possible inside `reading()` only."""

    places: dict[str, list[tuple[Path, str]]]
    _open: dict[Path, Any] = field(default_factory=dict)

    @contextmanager
    def reading(self) -> Iterator[WeightFiles]:
        with ExitStack() as stack:
            for path in sorted({path for parts in self.places.values() for path, _ in parts}):
                self._open[path] = stack.enter_context(safe_open(path, framework="pt"))
            try:
                yield self
            finally:
                self._open.clear()

    def shape(self, name: str) -> list[int]:
        shapes = [part.get_shape() for part in self._parts(name)]
        return shapes[0] if len(shapes) == 1 else [sum(shape[0] for shape in shapes), *shapes[0][1:]]

    def read_like(self, name: str, example: torch.Tensor) -> torch.Tensor:
        """This rank's rows of a tensor that is sharded like `example`, on the CPU, in the file's dtype.

        Raises ValueError if the tensor in the file has another shape.
        """
        if self.shape(name) != list(example.shape):
            raise ValueError(f"Expected {name} of shape {list(example.shape)}, found {self.shape(name)}")
        if isinstance(example, DTensor):
            return self._read_rows(name, local_rows(example))
        return self._read_rows(name, slice(0, example.shape[0]))

    def read_whole(self, name: str) -> torch.Tensor:
        """All rows, on the CPU, in the file's dtype."""
        return self._read_rows(name, slice(0, self.shape(name)[0]))

    def _read_rows(self, name: str, rows: slice) -> torch.Tensor:
        found, first = [], 0
        for part in self._parts(name):
            height = part.get_shape()[0]
            begin, end = max(rows.start, first), min(rows.stop, first + height)
            # For a rank without rows, empty slices keep the other dimensions.
            found.append(part[max(0, begin - first) : max(0, end - first)])
            first += height
        return found[0] if len(found) == 1 else torch.cat(found)

    def _parts(self, name: str) -> list[Any]:
        return [self._open[path].get_slice(key) for path, key in self.places[name]]


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return file.read(length)


def tensor_names(path: Path) -> list[str]:
    """The names in the header of a safetensors file, in order, each as often as it stands there."""
    tensors: list[tuple[str, Any]] = json.loads(_header(path), object_pairs_hook=list)
    return [name for name, _ in tensors]


def tensor_bytes(path: Path) -> dict[str, int]:
    """Bytes of each tensor of a safetensors file, read from its header."""
    header = json.loads(_header(path))
    spans = {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}
    return {name: end - start for name, (start, end) in spans.items()}


def write_index(directory: Path) -> None:
    """Writes an index for a model with a single file of weights. Without an index vLLM and SGLang load every *.safetensors of the
    directory as weights, also the canary."""
    if (directory / INDEX).is_file():
        return
    sizes = tensor_bytes(directory / SINGLE)
    index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": dict.fromkeys(sorted(sizes), SINGLE)}
    (directory / INDEX).write_bytes(json_bytes(index))


def write_shards(directory: Path, sizes: dict[str, int], read: Callable[[str], torch.Tensor]) -> None:
    """Writes tensors and their index, holding one shard in memory at a time. `sizes`: bytes of each tensor, in file order."""
    shards: list[list[str]] = []
    room = 0
    for name, size in sizes.items():
        if not shards or size > room:
            shards.append([])
            room = SHARD_BYTES
        shards[-1].append(name)
        room -= size
    files = (
        [SINGLE]
        if len(shards) == 1
        else [f"model-{at:05d}-of-{len(shards):05d}.safetensors" for at in range(1, len(shards) + 1)]
    )
    for file, shard in zip(files, shards, strict=True):
        # transformers refuses a file without a `format`.
        save_file({name: read(name).contiguous() for name in shard}, directory / file, metadata={"format": "pt"})
        share(directory / file)
    places = {name: file for file, shard in zip(files, shards, strict=True) for name in shard}
    index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": dict(sorted(places.items()))}
    (directory / INDEX).write_bytes(json_bytes(index))


def hugging_face_weights(directory: Path) -> WeightFiles:
    """Weights of a model directory. Raises OSError if safetensors files are missing."""
    index = directory / INDEX
    if index.is_file():
        names = json.loads(index.read_text())["weight_map"]
        if missing := sorted(file for file in set(names.values()) if not (directory / file).is_file()):
            raise OSError(f"Expected {missing[0]} in {directory}, its index names it")
        return WeightFiles({name: [(directory / file, name)] for name, file in names.items()})
    path = directory / SINGLE
    if not path.is_file():
        raise OSError(f"Expected {SINGLE} or {INDEX} in {directory}")
    return prefixed_weights([path], "")


def prefixed_weights(paths: Iterable[Path], prefix: str) -> WeightFiles:
    """Weights from files that each may hold a part of a tensor. Only keys with `prefix` count; names are the keys without it."""
    places: dict[str, list[tuple[Path, str]]] = {}
    for path in paths:
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118
                if key.startswith(prefix):
                    places.setdefault(key.removeprefix(prefix), []).append((path, key))
    return WeightFiles(places)
