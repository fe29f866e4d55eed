"""Sizes of dense decoders, and published models by name. Does not import torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul_trainer.failures import INVALID_SPEC, JobError


@dataclass(frozen=True)
class Shape:
    """Sizes from config.json. `head_dim` is explicit in Qwen3 and hidden / heads in Qwen2.5."""

    family: str
    hidden: int
    layers: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    is_tied: bool

    @property
    def layer_parameters(self) -> int:
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * self.hidden * query + 2 * self.hidden * key
        small = query + 2 * key if self.family == "qwen2" else 2 * self.head_dim if self.family == "qwen3" else 0
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden + small

    @property
    def parameters(self) -> int:
        tables = self.vocab * self.hidden * (1 if self.is_tied else 2)
        return self.layers * self.layer_parameters + tables + self.hidden

    @property
    def balance(self) -> float:
        """Length of a row whose causal attention costs as much as its linear layers, including the head."""
        linear = self.layers * self.layer_parameters + self.vocab * self.hidden
        return linear / (self.layers * self.heads * self.head_dim)

    @property
    def largest_parameter(self) -> int:
        query = self.heads * self.head_dim
        return self.hidden * max(self.vocab, self.intermediate, query)

    def adapter_parameters(self, rank: int) -> int:
        """Parameters of A [rank, in] and B [out, rank] for the seven projections of each layer."""
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        sides = 2 * (self.hidden + query) + 2 * (self.hidden + key) + 3 * (self.hidden + self.intermediate)
        return self.layers * rank * sides


PUBLISHED = {
    "qwen2.5-7b": Shape("qwen2", 3584, 28, 18944, 28, 4, 128, 152064, False),
    "qwen2.5-32b": Shape("qwen2", 5120, 64, 27648, 40, 8, 128, 152064, False),
    "qwen2.5-72b": Shape("qwen2", 8192, 80, 29568, 64, 8, 128, 152064, False),
    "qwen3-0.6b": Shape("qwen3", 1024, 28, 3072, 16, 8, 128, 151936, True),
    "qwen3-4b": Shape("qwen3", 2560, 36, 9728, 32, 8, 128, 151936, True),
}


def find_shape(model: str) -> Shape:
    """A published name (any case, with or without -Instruct) or a directory with config.json. Raises JobError 64."""
    name = Path(model).name.lower().removesuffix("-instruct")
    path = Path(model) / "config.json"
    if path.is_file():
        return read_shape(path)
    if name in PUBLISHED:
        return PUBLISHED[name]
    raise JobError(INVALID_SPEC, f"Expected a model directory or one of {', '.join(PUBLISHED)}, got {model}")


def read_shape(path: Path) -> Shape:
    """The shape of a config.json. Raises JobError 64 if it is not a dense decoder's."""
    try:
        return shape_of(json.loads(path.read_text()))
    except KeyError as error:
        raise JobError(INVALID_SPEC, f"Expected {path} to be of a dense decoder: no {error}") from error


def shape_of(config: dict[str, Any]) -> Shape:
    """Raises KeyError if it is not a dense decoder's."""
    heads = config["num_attention_heads"]
    return Shape(
        family=config["model_type"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        intermediate=config["intermediate_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        vocab=config["vocab_size"],
        is_tied=bool(config.get("tie_word_embeddings", False)),
    )
