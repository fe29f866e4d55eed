"""A second forward pass for the proof, in float64, directly from the source's tensors.

It shares no code with transformers: neither layers nor rotary tables nor the reading of config.json or GGUF metadata. One layer is in
memory at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import silu

from longhaul_trainer.importer.refusal import refused

# Rows of the head converted at a time: in float64 the full head would be twice the size of a large model's layer.
HEAD_ROWS = 8192


@dataclass(frozen=True)
class Reference:
    """`read` returns a tensor of the source by its role (`embed`, `0.q.weight`, `norm`, `head`), or None."""

    read: Callable[[str], torch.Tensor | None]
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    inv_freq: torch.Tensor  # [head_dim / 2], float64
    # YaRN scales queries and keys.
    attention_scale: float = 1.0
    # llama.cpp rotates adjacent dimensions of Llama's heads; all other models rotate the two halves.
    turns_neighbours: bool = False

    def logits(
        self, ids: torch.Tensor, on_layer: Callable[[int, int], None] = lambda _done, _total: None
    ) -> torch.Tensor:
        """ids: [B, T]. Returns logits [B, T, V] in float64. `on_layer` gets the number of computed layers, and the total."""
        hidden = self._need("embed")[ids].double()
        angles = torch.arange(ids.shape[1], dtype=torch.float64)[:, None] * self.inv_freq
        for layer in range(self.layers):
            hidden = self._layer(hidden, angles, str(layer))
            on_layer(layer + 1, self.layers)
        hidden = _norm(hidden, self._need("norm"), self.eps)
        head = self.read("head")
        head = self._need("embed") if head is None else head
        return torch.cat([hidden @ part.double().T for part in head.split(HEAD_ROWS)], dim=-1)

    def _layer(self, hidden: torch.Tensor, angles: torch.Tensor, layer: str) -> torch.Tensor:
        batch, length, _ = hidden.shape
        x = _norm(hidden, self._need(f"{layer}.attn_norm.weight"), self.eps)
        q = self._linear(x, f"{layer}.q").view(batch, length, self.heads, self.head_dim)
        k = self._linear(x, f"{layer}.k").view(batch, length, self.kv_heads, self.head_dim)
        v = self._linear(x, f"{layer}.v").view(batch, length, self.kv_heads, self.head_dim)
        if (weight := self.read(f"{layer}.q_norm.weight")) is not None:
            q = _norm(q, weight, self.eps)
            k = _norm(k, self._need(f"{layer}.k_norm.weight"), self.eps)
        q, k = self._turn(q, angles), self._turn(k, angles)
        groups = self.heads // self.kv_heads
        k, v = k.repeat_interleave(groups, dim=2), v.repeat_interleave(groups, dim=2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.head_dim)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
        mixed = torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, -1)
        hidden = hidden + self._linear(mixed, f"{layer}.o")
        x = _norm(hidden, self._need(f"{layer}.mlp_norm.weight"), self.eps)
        gated = silu(self._linear(x, f"{layer}.gate")) * self._linear(x, f"{layer}.up")
        return hidden + self._linear(gated, f"{layer}.down")

    def _turn(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        """Rotates x, [B, T, H, D], by angles, [T, D / 2]."""
        cos, sin = (f(angles)[:, None] * self.attention_scale for f in (torch.cos, torch.sin))
        if self.turns_neighbours:
            left, right = x[..., 0::2], x[..., 1::2]
            return torch.stack((left * cos - right * sin, right * cos + left * sin), dim=-1).flatten(-2)
        left, right = x.chunk(2, dim=-1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)

    def _linear(self, x: torch.Tensor, role: str) -> torch.Tensor:
        out = x @ self._need(f"{role}.weight").double().T
        bias = self.read(f"{role}.bias")
        return out if bias is None else out + bias.double()

    def _need(self, role: str) -> torch.Tensor:
        tensor = self.read(role)
        if tensor is None:
            raise refused(f"Expected the model to have weights for {role}")
        return tensor


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight.double()


def inverse_frequencies(rope: dict[str, Any], head_dim: int) -> tuple[torch.Tensor, float]:
    """Frequencies [head_dim / 2], float64, and the scale of queries and keys, for a rope as in config.json, with `rope_theta`."""
    theta = _positive(rope, "rope_theta")
    plain = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return plain, 1.0
    factor = _positive(rope, "factor")
    if kind == "linear":
        return plain / factor, 1.0
    original = float(rope["original_max_position_embeddings"])
    if kind == "llama3":
        return llama3_frequencies(plain, factor, rope["low_freq_factor"], rope["high_freq_factor"], original), 1.0
    return _yarn_frequencies(plain, theta, factor, original, rope)


def _positive(rope: dict[str, Any], name: str) -> float:
    value = float(rope[name])
    if 0 < value < math.inf:
        return value
    raise ValueError(f"{name} is {value}")


def llama3_frequencies(plain: torch.Tensor, factor: float, low: float, high: float, original: float) -> torch.Tensor:
    """Llama 3's scaling: long wavelengths are stretched by `factor`, short ones stay, those between are interpolated."""
    turns = original * plain / (2 * math.pi)
    mix = ((turns - low) / (high - low)).clamp(0, 1)
    return plain * mix + plain / factor * (1 - mix)


def _yarn_frequencies(
    plain: torch.Tensor, theta: float, factor: float, original: float, rope: dict[str, Any]
) -> tuple[torch.Tensor, float]:
    width = 2 * len(plain)

    def place(turns: float) -> float:
        return width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = place(float(rope.get("beta_fast") or 32)), place(float(rope.get("beta_slow") or 1))
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    ramp = ((torch.arange(len(plain), dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
    stated = rope.get("attention_factor")
    scale = float(stated) if stated is not None else 1.0 if factor <= 1 else 0.1 * math.log(factor) + 1.0
    return plain / factor * ramp + plain * (1 - ramp), scale
