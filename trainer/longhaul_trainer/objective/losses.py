"""Losses over flat vectors of loss tokens: one signature, scaled by the caller's global token count N.

logp, prox, weights, advantages: [n], fp32, natural log, loss tokens only, so nothing masked can reach an exp.
N counts the loss tokens of the whole mini-batch over all micro-batches: a per-micro-batch mean would weigh tokens of short
micro-batches more.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from longhaul_trainer.config import Objective

MAX_LOG_RATIO = 20.0


@dataclass(frozen=True)
class LossStats:
    """Token counts of one micro-batch, for the shares of the whole mini-batch; `ratios` is [n], without gradient."""

    clip_low: int
    clip_high: int
    dual_clip: int
    ratios: torch.Tensor


def cross_entropy(logp: torch.Tensor, *, n_tokens: int) -> torch.Tensor:
    """-(1/N) Σ logp: rejection fine-tuning on the sampled tokens of successful trajectories."""
    return -logp.sum() / n_tokens


def dapo(
    logp: torch.Tensor,
    *,
    prox: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    n_tokens: int,
    objective: Objective,
) -> tuple[torch.Tensor, LossStats]:
    """Clipped policy loss with separate bounds, optional dual clip and behaviour weights (DAPO, arXiv 2503.14476).

    -(1/N) Σ w · s with s = min(r·A, clip(r)·A); where A < 0 and dual clip is on, s is at least c·A.
    """
    ratio = torch.exp(torch.clamp(logp - prox, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    low, high = 1 - objective.clip_low, 1 + objective.clip_high
    surrogate = torch.minimum(ratio * advantages, torch.clamp(ratio, low, high) * advantages)
    negative = advantages < 0
    detached = ratio.detach()
    dual = torch.zeros_like(negative)
    if objective.dual_clip is not None:
        floor = objective.dual_clip * advantages
        dual = negative & (detached > objective.dual_clip)
        surrogate = torch.where(negative, torch.maximum(surrogate, floor), surrogate)
    loss = -(weights * surrogate).sum() / n_tokens
    stats = LossStats(
        clip_low=int((negative & (detached < low)).sum()),
        clip_high=int(((advantages > 0) & (detached > high)).sum()),
        dual_clip=int(dual.sum()),
        ratios=detached,
    )
    return loss, stats
