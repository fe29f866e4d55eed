"""The loss of the configured algorithm over one micro-batch: the algorithm's own term, entropy bonus, KL and imitation of experts.

All terms are averaged like the algorithm's own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch

from longhaul_trainer.config import Objective
from longhaul_trainer.objective.losses import (
    LossStats,
    Mean,
    cispo,
    constant_length_mean,
    dapo,
    dr_grpo,
    grpo,
    gspo,
    imitation,
    kl_to_reference,
    sequence_mean,
    token_mean,
)

# Algorithms that divide terms by the length of the token's trajectory, and algorithms with one ratio per row.
BY_LENGTH = ("grpo", "gspo")
BY_ROW = ("gspo",)


@dataclass(frozen=True)
class Tokens:
    """Loss tokens of a micro-batch, [n] each. logp has a gradient; entropy has one with an entropy bonus."""

    logp: torch.Tensor
    prox: torch.Tensor
    advantages: torch.Tensor
    # Weights that correct the mismatch between sampler and trainer.
    weights: torch.Tensor
    # Number of loss tokens of the token's trajectory, for algorithms in BY_LENGTH.
    lengths: torch.Tensor | None = None
    # Mean of logp - prox over the token's row, for algorithms in BY_ROW.
    gaps: torch.Tensor | None = None
    entropy: torch.Tensor | None = None
    # Log-probabilities of the reference policy.
    reference: torch.Tensor | None = None
    # Bool, tokens of experts; their `advantages` are weights.
    experts: torch.Tensor | None = None

    def only(self, chosen: torch.Tensor) -> Tokens:
        """The chosen tokens. chosen: bool [n]."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        parts: dict[str, Any] = {name: None if value is None else value[chosen] for name, value in named}
        return Tokens(**parts)


@dataclass(frozen=True)
class Counts:
    """Counts of the whole mini-batch. `tokens`: its loss tokens, or the constant token budget instead."""

    tokens: int
    trajectories: int


def policy_loss(tokens: Tokens, counts: Counts, objective: Objective) -> tuple[torch.Tensor, LossStats, torch.Tensor]:
    """Returns the loss, its token counts, and the sum of k3 to the reference, without gradient (0 without KL).

    Ratios, entropy and KL cover the policy's own tokens. Experts' tokens only get the imitation term.
    """
    own = tokens if tokens.experts is None else tokens.only(~tokens.experts)
    loss, stats = _own_term(own, counts, objective)
    mean = mean_of(own, counts, objective)
    divergence = torch.zeros((), dtype=torch.float64, device=tokens.logp.device)
    if objective.entropy_coef is not None:
        loss = loss - objective.entropy_coef * mean.of(_needed(own.entropy))
    if objective.kl is not None:
        terms = kl_to_reference(own.logp, _needed(own.reference))
        divergence = terms.detach().double().sum()
        loss = loss + objective.kl.coef * mean.of(terms)
    if tokens.experts is not None:
        expert = tokens.only(tokens.experts)
        loss = loss + imitation(expert.logp, weights=expert.advantages, mean=mean_of(expert, counts, objective))
    return loss, stats, divergence


def mean_of(tokens: Tokens, counts: Counts, objective: Objective) -> Mean:
    """How the algorithm averages over tokens."""
    if objective.algorithm in BY_LENGTH:
        return sequence_mean(_needed(tokens.lengths), counts.trajectories)
    if objective.length is not None:
        return constant_length_mean(objective.length, counts.trajectories)
    return token_mean(counts.tokens)


def _own_term(tokens: Tokens, counts: Counts, objective: Objective) -> tuple[torch.Tensor, LossStats]:
    common = {"advantages": tokens.advantages, "weights": tokens.weights, "objective": objective}
    match objective.algorithm:
        case "dapo":
            return dapo(tokens.logp, prox=tokens.prox, n_tokens=counts.tokens, **common)
        case "cispo":
            return cispo(tokens.logp, prox=tokens.prox, n_tokens=counts.tokens, **common)
        case "dr_grpo":
            return dr_grpo(tokens.logp, prox=tokens.prox, trajectories=counts.trajectories, **common)
        case "grpo":
            lengths = _needed(tokens.lengths)
            return grpo(tokens.logp, prox=tokens.prox, lengths=lengths, trajectories=counts.trajectories, **common)
        case "gspo":
            lengths, gaps = _needed(tokens.lengths), _needed(tokens.gaps)
            return gspo(tokens.logp, gaps=gaps, lengths=lengths, trajectories=counts.trajectories, **common)


def _needed(values: torch.Tensor | None) -> torch.Tensor:
    if values is None:
        raise ValueError("Expected every tensor that the objective reads")
    return values
