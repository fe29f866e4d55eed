"""Metrics of one optimizer step, over all loss tokens of its mini-batch, in float64, and their alarm limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Alarm:
    """A metric outside its limits. The job ends normally; the pipeline pauses the run until an operator resumes it."""

    metric: str
    value: float
    limit: str


def mismatch_metrics(v: Array) -> dict[str, float]:
    """Mismatch between proximal policy and sampler. v = lp_prox - lp_μ: [n]; ratios are e^v before any cap.

    One token that the sampler thought impossible makes a ratio, or its square, overflow: such figures are infinite or NaN.
    """
    v = v.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        rho = np.exp(v)
        return {
            "k1": float(-v.mean()),
            "k3": float((rho - v - 1).mean()),
            "abs_dlogp_max": float(np.abs(v).max()),
            "abs_dlogp_p99": float(np.percentile(np.abs(v), 99)),
            "is_mean": float(rho.mean()),
            "is_std": float(rho.std()),
            "is_max": float(rho.max()),
            "ess": float(rho.sum() ** 2 / (rho**2).sum() / len(rho)),
            "chi2": float((rho**2).mean() - 1),
        }


# Metric → (lowest, highest) value without an alarm. The first five follow verl's rollout correction guide.
LIMITS: dict[str, tuple[float, float]] = {
    "k1": (-0.1, 0.1),
    "k3": (-0.1, 0.1),
    "is_mean": (0.5, 2.0),
    "ess": (0.3, 1.1),
    "is_std": (0.0, 1.0),
    "chi2": (-1.0, 1.0),
    "tis_capped": (0.0, 0.1),
    "masked_frac": (0.0, 0.3),
    "dropped_nonfinite": (0.0, 0.01),
}


def find_alarms(metrics: dict[str, Any]) -> list[Alarm]:
    return [
        Alarm(metric=name, value=metrics[name], limit=f"[{low:g}, {high:g}]")
        for name, (low, high) in LIMITS.items()
        if name in metrics and not low <= metrics[name] <= high
    ]
