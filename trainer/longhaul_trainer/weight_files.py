"""Weights on disk by the model's own names, read a slice at a time: no rank ever holds more than its part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


@dataclass
class WeightFiles:
    """`places`: name → (file, key in it). Opened by `reading()`."""

    places: dict[str, tuple[Path, str]]
    _open: dict[Path, Any] = field(default_factory=dict)

    @contextmanager
    def reading(self) -> Iterator[WeightFiles]:
        with ExitStack() as stack:
            for path in sorted({path for path, _ in self.places.values()}):
                self._open[path] = stack.enter_context(safe_open(path, framework="pt"))
            try:
                yield self
            finally:
                self._open.clear()

    def shape(self, name: str) -> list[int]:
        path, key = self.places[name]
        return self._open[path].get_slice(key).get_shape()

    def read(self, name: str, rows: slice | None = None) -> torch.Tensor:
        """fp32. `rows`: part of the first dimension."""
        path, key = self.places[name]
        if rows is None:
            return self._open[path].get_tensor(key).float()
        return self._open[path].get_slice(key)[rows.start : rows.stop].float()


def hugging_face_weights(directory: Path) -> WeightFiles:
    """Of a model directory. Raises OSError where it has no safetensors."""
    index = directory / INDEX
    if index.is_file():
        names = json.loads(index.read_text())["weight_map"]
        return WeightFiles({name: (directory / file, name) for name, file in names.items()})
    path = directory / SINGLE
    if not path.is_file():
        raise OSError(f"Expected {SINGLE} or {INDEX} in {directory}")
    return prefixed_weights(path, "")


def prefixed_weights(path: Path, prefix: str) -> WeightFiles:
    """Of one file in which the model's names follow `prefix`; other tensors are left alone."""
    with safe_open(path, framework="pt") as file:
        keys = list(file.keys())
    return WeightFiles({key.removeprefix(prefix): (path, key) for key in keys if key.startswith(prefix)})
