"""Log-probability and entropy of given tokens from hidden states. Only one chunk of logits exists at a time.

Unchunked, 16k tokens × 152k vocabulary take 10 GB for each fp32 copy. A chunk is TOKENS × VOCABULARY; the backward pass recomputes
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

TOKENS = 1024
VOCABULARY = 8192


class LogprobHead(nn.Linear):
    """A language model head that also scores: with `targets` it returns `label_logprobs`. `adopt_head` converts an existing head."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        hidden: torch.Tensor,
        targets: torch.Tensor | None = None,
        temperature: float = 1.0,
        entropy_trains: bool = False,
    ) -> Any:
        if targets is None:
            return super().forward(hidden)
        return label_logprobs(hidden, self.weight, targets, temperature, entropy_trains=entropy_trains)


def adopt_head(head: nn.Module) -> None:
    """Changes the class in place, which keeps parameter names and ties. Scoring through the module lets FSDP gather its weight first.

    Raises ValueError unless `head` is a plain linear layer without bias.
    """
    if type(head) is not nn.Linear or head.bias is not None:
        raise ValueError(f"Expected the head to be a linear layer without bias, got {type(head).__name__}")
    head.__class__ = LogprobHead


def label_logprobs(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    temperature: float,
    *,
    entropy_trains: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """hidden: [n, H]; weight: [V, H]; targets: [n]. Returns log-probability [n], natural log, and entropy [n], in nats.

    Both are at `temperature`, in fp32 (float64 for float64 inputs). The log-probability has a gradient, the entropy only with
    `entropy_trains`.
    """
    return _ChunkedHead.apply(hidden, weight, targets, temperature, entropy_trains)  # pyright: ignore[reportReturnType]


class _ChunkedHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        temperature: float,
        entropy_trains: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [_score(hidden[rows], weight, targets[rows], temperature) for rows in _slices(len(targets), TOKENS)]
        empty = hidden.new_zeros(0, dtype=_wide(hidden))
        logprobs = torch.cat([empty, *(logprob for logprob, _, _ in parts)])
        entropy = torch.cat([empty, *(entropy for _, entropy, _ in parts)])
        ctx.temperature = temperature
        ctx.entropy_trains = entropy_trains
        total = torch.cat([empty, *(total for _, _, total in parts)])
        ctx.save_for_backward(hidden, weight, targets, total, *([entropy] if entropy_trains else []))
        if not entropy_trains:
            ctx.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None, None]:
        hidden, weight, targets, total, *entropy = ctx.saved_tensors
        wide = _wide(hidden)
        to_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        # Summed over chunks in fp32: bf16 would lose small terms.
        to_weight = torch.zeros_like(weight, dtype=wide) if ctx.needs_input_grad[1] else None
        for rows in _slices(len(targets), TOKENS):
            scale = (gradients[0][rows] / ctx.temperature)[:, None]
            to_rows = hidden.new_zeros(hidden[rows].shape, dtype=wide) if to_hidden is not None else None
            for words in _slices(len(weight), VOCABULARY):
                logits = _logits(hidden[rows], weight[words], ctx.temperature)
                slope = -torch.exp(logits - total[rows, None]) * scale
                if ctx.entropy_trains:
                    # dH/dx = -p · (log p + H) for each logit x.
                    pull = (gradients[1][rows] / ctx.temperature)[:, None]
                    own = logits - total[rows, None]
                    slope = slope - torch.exp(own) * (own + entropy[0][rows, None]) * pull
                _add_at(slope, targets[rows] - words.start, scale)
                slope = slope.to(hidden.dtype)
                if to_rows is not None:
                    to_rows += _product(slope, weight[words])
                if to_weight is not None:
                    to_weight[words] += _product(slope.T, hidden[rows])
            if to_hidden is not None and to_rows is not None:
                to_hidden[rows] = to_rows
        return to_hidden, None if to_weight is None else to_weight.to(weight.dtype), None, None, None


def _score(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One token chunk: log-probability, entropy and log-sum-exp, by a running maximum over vocabulary chunks.

    Entropy = log Σ e^x − Σ x·e^x / Σ e^x; both sums are kept relative to the running maximum.
    """
    wide = _wide(hidden)
    top = hidden.new_full((len(hidden),), -torch.inf, dtype=wide)
    mass, moment, picked = (hidden.new_zeros(len(hidden), dtype=wide) for _ in range(3))
    for words in _slices(len(weight), VOCABULARY):
        logits = _logits(hidden, weight[words], temperature)
        top, mass, moment, picked = fold_chunk(logits, targets - words.start, top, mass, moment, picked)
    total = top + torch.log(mass)
    return picked - total, total - moment / mass, total


def fold_chunk(
    logits: torch.Tensor,
    at: torch.Tensor,
    top: torch.Tensor,
    mass: torch.Tensor,
    moment: torch.Tensor,
    picked: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Adds a vocabulary chunk to the running maximum, to Σ e^x and Σ x·e^x relative to it, and to the target's logit.

    logits: [n, chunk]; `at`: [n], target index within the chunk, outside of it for other chunks; the others: [n].
    """
    higher = torch.maximum(top, logits.amax(dim=1))
    shrink = torch.exp(top - higher)
    shares = torch.exp(logits - higher[:, None])
    mass = mass * shrink + shares.sum(dim=1)
    moment = moment * shrink + (shares * logits).sum(dim=1)
    inside = (at >= 0) & (at < logits.shape[1])
    safe = torch.where(inside, at, 0)
    picked = torch.where(inside, logits.gather(1, safe[:, None])[:, 0], picked)
    return higher, mass, moment, picked


def _logits(hidden: torch.Tensor, weight: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = _product(hidden, weight.T)
    return logits if temperature == 1.0 else logits / temperature


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Matrix product in fp32 (float64 for float64). In bf16, logits near 16 would be off by 0.06, and ratios by as much."""
    wide = _wide(left)
    if left.dtype == wide:
        return left @ right
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=wide)
    return left.to(wide) @ right.to(wide)


def _add_at(slope: torch.Tensor, at: torch.Tensor, values: torch.Tensor) -> None:
    """slope[i, at[i]] += values[i] for each at[i] inside the chunk."""
    inside = (at >= 0) & (at < slope.shape[1])
    safe = torch.where(inside, at, 0)
    slope.scatter_add_(1, safe[:, None], torch.where(inside[:, None], values, 0.0).to(slope.dtype))


def _slices(length: int, size: int) -> Iterator[slice]:
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def _wide(tensor: torch.Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
