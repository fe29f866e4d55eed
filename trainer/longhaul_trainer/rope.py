"""YaRN (arXiv 2309.00071): a static override of the rotary tables, the same in every job of a run and in its exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Yarn:
    """Stretches `original_max` positions by `factor`. Static: all positions change, short rows too."""

    factor: float
    original_max: int


def apply_yarn(config: Any, yarn: Yarn | None) -> None:
    """In place. Absolute values, so applying it to a config that has it already changes nothing."""
    if yarn is None:
        return
    theta = config.rope_parameters["rope_theta"]
    config.rope_parameters = {
        "rope_type": "yarn",
        "rope_theta": theta,
        "factor": yarn.factor,
        "original_max_position_embeddings": yarn.original_max,
    }
    config.max_position_embeddings = int(yarn.factor * yarn.original_max)
