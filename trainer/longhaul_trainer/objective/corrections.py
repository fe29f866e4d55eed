"""Importance weights for the mismatch between sampler and trainer. They depend on no trained parameter, so they are constants of the loss.

v = lp_prox - lp_μ: [n]. Masked tokens still count in N, so a masked mini-batch makes a smaller step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from longhaul_trainer.config import Objective


@dataclass(frozen=True)
class Correction:
    """weights: [n]; capped and masked: shares of the n tokens."""

    weights: torch.Tensor
    capped: float
    masked: float


def correct(v: torch.Tensor, rows: torch.Tensor, objective: Objective) -> Correction:
    """v: [n]; rows: [n], row of each token, numbered from 0 without gaps. Bounds are inclusive.

    `tis` and `icepop` weight each token by its own ratio. `sequence_tis` weights all tokens of a row by the product of their ratios
    (verl's and TRL's sequence-level truncation), `geometric_tis` by their geometric mean.
    """
    rho = torch.exp(v)
    weights = torch.ones_like(v)
    capped = torch.zeros_like(v, dtype=torch.bool)
    masked = torch.zeros_like(capped)
    if objective.correction in ("sequence_tis", "geometric_tis"):
        rho = torch.exp(torch.clamp(_over_rows(v, rows, mean=objective.correction == "geometric_tis"), -20.0, 20.0))
        weights = torch.clamp(rho, max=objective.tis_cap).to(v.dtype)
        capped = rho > objective.tis_cap
    elif objective.correction == "tis":
        weights = torch.clamp(rho, max=objective.tis_cap)
        capped = rho > objective.tis_cap
    elif objective.correction == "icepop":
        low, high = objective.icepop_range
        masked = (rho < low) | (rho > high)
        weights = torch.where(masked, 0.0, rho)
    if objective.seq_mask == "geo":
        low, high = objective.geo_range
        mean = torch.exp(_over_rows(v, rows, mean=True))
        outside = (mean < low) | (mean > high)
        masked = masked | outside
        weights = torch.where(outside, 0.0, weights)
    share = max(1, len(v))
    return Correction(weights=weights, capped=int(capped.sum()) / share, masked=int(masked.sum()) / share)


def _over_rows(v: torch.Tensor, rows: torch.Tensor, *, mean: bool) -> torch.Tensor:
    """Sum or mean of v over the row of each token: [n], float64."""
    count = torch.bincount(rows)
    total = torch.zeros(len(count), dtype=torch.float64, device=v.device).index_add_(0, rows, v.double())
    return (total / count if mean else total)[rows]
