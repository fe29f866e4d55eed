"""YaRN (arXiv 2309.00071): a static override of the rotary tables.

Only a policy's config.json states it. Policy servers and the trainer both read it there.
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
    """Stretches `original_max` positions by `factor`. Static: it changes all positions, also in short rows."""

    factor: float
    original_max: int

    @property
    def reach(self) -> int:
        return int(self.factor * self.original_max)

    def __str__(self) -> str:
        return f"yarn × {self.factor:g} from {self.original_max}"


def stated_yarn(config: dict[str, Any]) -> Yarn | None:
    """YaRN as a config.json states it, in either form. None: plain positions, or another scaling."""
    for name in ("rope_parameters", "rope_scaling"):
        rope = config.get(name)
        if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) == "yarn":
            original: Any = rope.get("original_max_position_embeddings", config.get("max_position_embeddings"))
            return Yarn(factor=float(rope["factor"]), original_max=int(original))
    return None


def read_yarn(directory: Path) -> Yarn | None:
    """YaRN as the config.json of a model directory states it."""
    return stated_yarn(json.loads((directory / "config.json").read_text()))


def apply_yarn(config: Any, yarn: Yarn | None) -> None:
    """Writes `yarn` into a config that does not state it, as in checkpoints of early versions. In place."""
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
    """Inside, the model uses plain positions, like a server that ignores the rope setting."""
    kept = [(module, module.inv_freq, module.attention_scaling) for module in _rotary(model)]
    try:
        drop_yarn(model)
        yield
    finally:
        for module, frequencies, scaling in kept:
            module.inv_freq = frequencies
            module.attention_scaling = scaling


def drop_yarn(model: Any) -> None:
    """In place: same weights, rotary tables for plain positions."""
    _turn(model, {"rope_type": "default", "rope_theta": model.config.rope_parameters["rope_theta"]})


def restretch(model: Any, *, factor: float) -> None:
    """In place: same weights, rotary tables for the model's YaRN with another factor."""
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
