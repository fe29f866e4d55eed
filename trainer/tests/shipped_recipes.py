"""Shapes and layouts of the shipped recipes for long contexts, for the planner."""

from __future__ import annotations

from typing import Any

import yaml
from job_files import TRAINER

from longhaul_trainer.plan.memory import Layout
from longhaul_trainer.plan.shapes import PUBLISHED, Shape

MODELS = {
    "qwen3-4b-one-gpu": "qwen3-4b",
    "qwen2.5-7b-one-gpu": "qwen2.5-7b",
    "qwen2.5-32b": "qwen2.5-32b",
    "paper-72b": "qwen2.5-72b",
}


def recipe_text(recipe: str) -> str:
    return (TRAINER.parent / "recipes" / f"{recipe}.yaml").read_text()


def shape_of(recipe: str) -> Shape:
    return PUBLISHED[MODELS[recipe]]


def layout_of(recipe: str, *, ac: str | None = None) -> Layout:
    """The recipe's layout at its longest context. `ac`: overrides the recipe's."""
    told: dict[str, Any] = yaml.safe_load(recipe_text(recipe))
    trainer, reinforce = told["trainer"], told["reinforce"]
    assert told["model"]["train"] == "full"
    return Layout(
        tokens=max(trainer["maxTokensPerMicro"], *(stage["context"] for stage in reinforce["stages"])),
        ranks=trainer.get("nodes", 1) * trainer.get("ranksPerNode", 1),
        cp=trainer.get("contextParallel", 1),
        ac=ac or trainer["recompute"],
        offload=trainer.get("offload", "none"),
        states=reinforce["optim"].get("states", "float32"),
    )
