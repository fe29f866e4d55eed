"""YaRN (arXiv 2309.00071): a static override of the rotary tables.

A policy's config.json is the only place that states it: policy servers and the trainer both read it there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Yarn:
    """Stretches `original_max` positions by `factor`. Static: all positions change, short rows too."""

    factor: float
    original_max: int

    @property
    def reach(self) -> int:
        return int(self.factor * self.original_max)

    def __str__(self) -> str:
        return f"yarn × {self.factor:g} from {self.original_max}"


def stated_yarn(config: dict[str, Any]) -> Yarn | None:
    """Of a model's config.json, in either form. None: positions as they are, or scaled in another way."""
    for name in ("rope_parameters", "rope_scaling"):
        rope = config.get(name)
        if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) == "yarn":
            original: Any = rope.get("original_max_position_embeddings", config.get("max_position_embeddings"))
            return Yarn(factor=float(rope["factor"]), original_max=int(original))
    return None


def read_yarn(directory: Path) -> Yarn | None:
    """What a model directory states."""
    return stated_yarn(json.loads((directory / "config.json").read_text()))


def apply_yarn(config: Any, yarn: Yarn | None) -> None:
    """In place, for a checkpoint of a version whose architecture did not state the rope; a config that states it is left alone."""
    if yarn is None or stated_yarn(config.to_dict()) == yarn:
        return
    theta = config.rope_parameters["rope_theta"]
    config.rope_parameters = {
        "rope_type": "yarn",
        "rope_theta": theta,
        "factor": yarn.factor,
        "original_max_position_embeddings": yarn.original_max,
    }
    config.max_position_embeddings = yarn.reach


@contextmanager
def without_yarn(model: Any) -> Iterator[None]:
    """The model as a reader that ignores the rope has it."""
    kept = [(module, module.inv_freq, module.attention_scaling) for module in _rotary(model)]
    try:
        drop_yarn(model)
        yield
    finally:
        for module, frequencies, scaling in kept:
            module.inv_freq = frequencies
            module.attention_scaling = scaling


def drop_yarn(model: Any) -> None:
    """In place: same weights, rotary tables of the plain positions."""
    _turn(model, {"rope_type": "default", "rope_theta": model.config.rope_parameters["rope_theta"]})


def restretch(model: Any, *, factor: float) -> None:
    """In place: same weights, rotary tables of its YaRN with another factor."""
    _turn(model, {**model.config.rope_parameters, "factor": factor})


def _turn(model: Any, rope_parameters: dict[str, Any]) -> None:
    config = deepcopy(model.config)
    config.rope_parameters = rope_parameters
    for module in _rotary(model):
        fresh: Any = type(module)(config=config)
        module.inv_freq = fresh.inv_freq.to(module.inv_freq.device)
        module.attention_scaling = fresh.attention_scaling


def _rotary(model: Any) -> list[Any]:
    return [module for module in model.modules() if "inv_freq" in dict(module.named_buffers(recurse=False))]
