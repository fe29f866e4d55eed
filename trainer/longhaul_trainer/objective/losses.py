"""Losses over flat vectors of loss tokens, one function per algorithm. Each divides by a count of the whole mini-batch.

logp, prox, weights, advantages, lengths, gaps: [n], fp32, natural log, loss tokens only, so no masked value reaches an exp.
Counts cover all micro-batches and ranks: a mean per micro-batch would give tokens of short micro-batches more weight.
docs/training.md has the formulas with their sources.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from longhaul_trainer.config import Objective

MAX_LOG_RATIO = 20.0


@dataclass(frozen=True)
class LossStats:
    """Token counts of one micro-batch, from which the mini-batch's shares are computed; `ratios`: [n], without gradient."""

    clip_low: int
    clip_high: int
    dual_clip: int
    ratios: torch.Tensor


@dataclass(frozen=True)
class Mean:
    """Reduces terms of tokens to a scalar: Σ scale · term / divisor. Without `scale` it is 1 for each token."""

    divisor: float
    scale: torch.Tensor | None = None

    def of(self, terms: torch.Tensor) -> torch.Tensor:
        return (terms if self.scale is None else self.scale * terms).sum() / self.divisor


def token_mean(n_tokens: int) -> Mean:
    """Equal weight for every token: DAPO and CISPO. With a constant token budget (C3PO), n_tokens is the budget."""
    return Mean(divisor=n_tokens)


def sequence_mean(lengths: torch.Tensor, trajectories: int) -> Mean:
    """Equal weight for every trajectory: GRPO and GSPO. lengths: [n], number of loss tokens of each token's trajectory."""
    return Mean(divisor=trajectories, scale=1 / lengths)


def constant_length_mean(length: int, trajectories: int) -> Mean:
    """Divides by a constant length, so that a token's weight does not depend on its trajectory's length: Dr. GRPO."""
    return Mean(divisor=length * trajectories)


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
    """Clipped policy loss with separate bounds, optional dual clip and correction weights (DAPO, arXiv 2503.14476).

    -(1/N) Σ w · s with s = min(r·A, clip(r)·A). With dual clip c, s is at least c·A if A < 0.
    """
    surrogate, stats = _clipped(_ratio(logp, prox), advantages, objective)
    return -token_mean(n_tokens).of(weights * surrogate), stats


def grpo(
    logp: torch.Tensor,
    *,
    prox: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    lengths: torch.Tensor,
    trajectories: int,
    objective: Objective,
) -> tuple[torch.Tensor, LossStats]:
    """DAPO's terms, averaged within each trajectory and then over trajectories (GRPO, arXiv 2402.03300 eq. 3, without its KL)."""
    surrogate, stats = _clipped(_ratio(logp, prox), advantages, objective)
    return -sequence_mean(lengths, trajectories).of(weights * surrogate), stats


def dr_grpo(
    logp: torch.Tensor,
    *,
    prox: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    trajectories: int,
    objective: Objective,
) -> tuple[torch.Tensor, LossStats]:
    """DAPO's terms, summed and divided by trajectories · a constant length (Dr. GRPO, arXiv 2503.20783)."""
    surrogate, stats = _clipped(_ratio(logp, prox), advantages, objective)
    return -constant_length_mean(_length_of(objective), trajectories).of(weights * surrogate), stats


def gspo(
    logp: torch.Tensor,
    *,
    gaps: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    lengths: torch.Tensor,
    trajectories: int,
    objective: Objective,
) -> tuple[torch.Tensor, LossStats]:
    """One ratio s per row, the geometric mean of its tokens' ratios, clipped as a whole (GSPO, arXiv 2507.18071 eq. 5).

    gaps: [n], mean of logp - prox over the loss tokens of the token's row, without gradient. Each token has
    r = sg(s) · exp(logp - sg(logp)), which equals s in value; the mean of r over the row has the gradient of s.
    """
    sequence = torch.exp(torch.clamp(gaps, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    surrogate, stats = _clipped(sequence * torch.exp(logp - logp.detach()), advantages, objective)
    return -sequence_mean(lengths, trajectories).of(weights * surrogate), stats


def cispo(
    logp: torch.Tensor,
    *,
    prox: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    n_tokens: int,
    objective: Objective,
) -> tuple[torch.Tensor, LossStats]:
    """-(1/N) Σ w · sg(clip(r)) · A · logp (CISPO, arXiv 2506.13585 eq. 4): a clipped token keeps its gradient."""
    ratio = _ratio(logp, prox).detach()
    low, high = 1 - objective.clip_low, 1 + objective.clip_high
    terms = torch.clamp(ratio, low, high) * advantages * logp
    stats = LossStats(clip_low=int((ratio < low).sum()), clip_high=int((ratio > high).sum()), dual_clip=0, ratios=ratio)
    return -token_mean(n_tokens).of(weights * terms), stats


def dpo(
    logp: torch.Tensor,
    *,
    signs: torch.Tensor,
    margins: torch.Tensor,
    shares: torch.Tensor,
    beta: float,
    pairs: int,
) -> torch.Tensor:
    """-(1/P) Σ log σ(m) over pairs, m = β·(Σ log π/π_ref of the chosen - Σ log π/π_ref of the rejected) (DPO, arXiv 2305.18290 eq. 7).

    The sum runs over tokens, so that a pair may be in several micro-batches. signs: [n], 1 for tokens of a chosen trajectory, -1 for
    tokens of a rejected one; margins: [n], m of the token's pair, without gradient; shares: [n], 1 / number of the pair's loss tokens.
    Value and gradient equal those of the formula: the gradient of -log σ(m) by a token's log-probability is -σ(-m)·β·sign.
    """
    slopes = -torch.sigmoid(-margins) * beta * signs
    values = shares * torch.nn.functional.softplus(-margins)
    return (values + slopes * (logp - logp.detach())).sum() / pairs


def imitation(logp: torch.Tensor, *, weights: torch.Tensor, mean: Mean) -> torch.Tensor:
    """-mean(weight · logp) over experts' tokens. No policy of the batch sampled them, so there is no ratio, clip or correction (AHPO,
    arXiv 2510.08540 eq. 5). `mean` has the same divisor as the mean of the policy's own tokens."""
    return -mean.of(weights * logp)


def kl_to_reference(logp: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """k3 of each token, [n]: e^d - d - 1 with d = reference - logp; ≥ 0 and unbiased under the policy (GRPO, arXiv 2402.03300 eq. 4)."""
    d = torch.clamp(reference - logp, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return torch.exp(d) - d - 1


def _ratio(logp: torch.Tensor, prox: torch.Tensor) -> torch.Tensor:
    return torch.exp(torch.clamp(logp - prox, -MAX_LOG_RATIO, MAX_LOG_RATIO))


def _clipped(ratio: torch.Tensor, advantages: torch.Tensor, objective: Objective) -> tuple[torch.Tensor, LossStats]:
    low, high = 1 - objective.clip_low, 1 + objective.clip_high
    surrogate = torch.minimum(ratio * advantages, torch.clamp(ratio, low, high) * advantages)
    negative = advantages < 0
    detached = ratio.detach()
    dual = torch.zeros_like(negative)
    if objective.dual_clip is not None:
        floor = objective.dual_clip * advantages
        dual = negative & (detached > objective.dual_clip)
        surrogate = torch.where(negative, torch.maximum(surrogate, floor), surrogate)
    stats = LossStats(
        clip_low=int((negative & (detached < low)).sum()),
        clip_high=int(((advantages > 0) & (detached > high)).sum()),
        dual_clip=int(dual.sum()),
        ratios=detached,
    )
    return surrogate, stats


def _length_of(objective: Objective) -> int:
    if objective.length is None:
        raise ValueError("Expected objective.length with algorithm dr_grpo")
    return objective.length
