"""Reference implementation of the trainer's step in float64 and plain tensor code: no transformers, packing or chunks, one row at a time.

It follows the formulas of the papers (Qwen2.5 and Qwen3 reports; DAPO, arXiv 2503.14476; IcePop), not the trainer.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

Array = np.ndarray[Any, Any]


class PlainModel:
    """Weights as float64 leaves and the forward pass of a dense decoder."""

    def __init__(self, directory: Path) -> None:
        self.config = json.loads((directory / "config.json").read_text())
        stored = load_file(directory / "model.safetensors")
        self.weights = {name: tensor.double().requires_grad_() for name, tensor in stored.items()}

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """ids: [S] → [S, V]."""
        config, weight = self.config, self.weights
        heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
        x = weight["model.embed_tokens.weight"][ids]
        for layer in range(config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            normal = self._norm(x, at + "input_layernorm")
            q, k, v = (self._project(normal, at + f"self_attn.{name}_proj") for name in "qkv")
            depth = q.shape[1] // heads
            q, k, v = (part.view(len(ids), -1, depth) for part in (q, k, v))
            if at + "self_attn.q_norm.weight" in weight:
                q, k = self._norm(q, at + "self_attn.q_norm"), self._norm(k, at + "self_attn.k_norm")
            q, k = self._rotate(q), self._rotate(k)
            mixed = []
            for head in range(heads):
                shared = head * groups // heads
                scores = q[:, head] @ k[:, shared].T / math.sqrt(depth)
                future = torch.ones(len(ids), len(ids), dtype=torch.bool).triu(1)
                mixed.append(scores.masked_fill(future, -math.inf).softmax(-1) @ v[:, shared])
            x = x + self._project(torch.cat(mixed, 1), at + "self_attn.o_proj")
            normal = self._norm(x, at + "post_attention_layernorm")
            gate = self._project(normal, at + "mlp.gate_proj")
            x = x + self._project(
                gate * gate.sigmoid() * self._project(normal, at + "mlp.up_proj"), at + "mlp.down_proj"
            )
        head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
        return self._norm(x, "model.norm") @ weight[head].T

    def _project(self, x: torch.Tensor, name: str) -> torch.Tensor:
        bias = self.weights.get(name + ".bias")
        found = x @ self.weights[name + ".weight"].T
        return found if bias is None else found + bias

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = (x.square().mean(-1, keepdim=True) + self.config["rms_norm_eps"]).rsqrt()
        return x * scale * self.weights[name + ".weight"]

    def _rotate(self, x: torch.Tensor) -> torch.Tensor:
        """x: [S, heads, depth]; pairs (i, i + depth/2) rotate by position · theta^(−2i/depth)."""
        half = x.shape[2] // 2
        theta = self.config["rope_parameters"]["rope_theta"]
        speed = theta ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = (torch.arange(len(x), dtype=torch.float64)[:, None] * speed)[:, None]
        left, right = x[..., :half], x[..., half:]
        return torch.cat([left * angle.cos() - right * angle.sin(), right * angle.cos() + left * angle.sin()], -1)


@dataclass
class ReferenceStep:
    loss: float
    gradients: dict[str, torch.Tensor]
    entropy: float
    n_tokens: int
    # Means over the chosen and the rejected trajectories of pairs.
    rewards: tuple[float, float] | None = None


def reference_step(
    directory: Path,
    rows: list[dict[str, Array]],
    *,
    temperature: float,
    objective: dict[str, Any] | None,
) -> ReferenceStep:
    """rows: each has `ids`, `mask`, and for DAPO `advantages`, `prox` and `behaviour`, all of the row's length."""
    model = PlainModel(directory)
    n_tokens = sum(int(row["mask"].sum()) for row in rows)
    loss = torch.zeros((), dtype=torch.float64)
    entropy = 0.0
    for row in rows:
        logprobs = torch.log_softmax(model.logits(torch.from_numpy(row["ids"]).long()) / temperature, -1)
        for t in np.flatnonzero(row["mask"]):
            before = logprobs[t - 1]
            entropy -= float((before.exp() * before).sum().detach())
            picked = before[int(row["ids"][t])]
            loss = loss - (picked if objective is None else _surrogate(picked, row, int(t), objective)) / n_tokens
    loss.backward()
    gradients = {name: leaf.grad for name, leaf in model.weights.items() if leaf.grad is not None}
    return ReferenceStep(loss=float(loss.detach()), gradients=gradients, entropy=entropy / n_tokens, n_tokens=n_tokens)


def _surrogate(picked: torch.Tensor, row: dict[str, Array], t: int, objective: dict[str, Any]) -> torch.Tensor:
    advantage, prox = float(row["advantages"][t]), float(row["prox"][t])
    ratio = (picked - prox).exp()
    low, high = 1 - objective["clip_low"], 1 + objective["clip_high"]
    if advantage >= 0:
        term = (
            ratio * advantage if float(ratio.detach()) <= high else torch.tensor(high * advantage, dtype=torch.float64)
        )
    else:
        term = ratio * advantage if float(ratio.detach()) >= low else torch.tensor(low * advantage, dtype=torch.float64)
        limit = objective["dual_clip"]
        if limit != "none" and float(ratio.detach()) > limit:
            term = torch.tensor(limit * advantage, dtype=torch.float64)
    return term * weight_at(row, t, objective)


def weight_at(row: dict[str, Array], t: int, objective: dict[str, Any]) -> float:
    gaps = row["prox"].astype(np.float64) - row["behaviour"].astype(np.float64)
    rho = math.exp(gaps[t])
    weight = 1.0
    if objective["correction"] == "tis":
        weight = min(rho, objective["tis_cap"])
    if objective["correction"] == "sequence_tis":
        weight = min(math.exp(float(gaps[row["mask"] == 1].sum())), objective["tis_cap"])
    if objective["correction"] == "geometric_tis":
        weight = min(math.exp(float(gaps[row["mask"] == 1].mean())), objective["tis_cap"])
    if objective["correction"] == "icepop":
        low, high = objective["icepop_range"]
        weight = rho if low <= rho <= high else 0.0
    if objective["seq_mask"] == "geo":
        low, high = objective["geo_range"]
        mean = math.exp(float(gaps[row["mask"] == 1].mean()))
        weight = weight if low <= mean <= high else 0.0
    return weight
