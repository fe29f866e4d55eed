"""Losses, corrections and schedule against numbers computed by hand or in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from longhaul_trainer.config import Objective, Schedule
from longhaul_trainer.objective.corrections import correct
from longhaul_trainer.objective.losses import cross_entropy, dapo
from longhaul_trainer.objective.metrics import find_alarms, mismatch_metrics
from longhaul_trainer.objective.schedule import learning_rate


def objective(**changes: object) -> Objective:
    values = {
        "prox": "recompute",
        "correction": "none",
        "tis_cap": 2.0,
        "icepop_range": (0.5, 5.0),
        "seq_mask": "none",
        "geo_range": (0.99, 1.01),
        "dual_clip": None,
        "clip_low": 0.2,
        "clip_high": 0.3,
        **changes,
    }
    return Objective(**values)  # type: ignore[arg-type]


def run(ratio: float, advantage: float, *, dual_clip: float | None = None, n: int = 4) -> tuple[float, float]:
    """Loss and its derivative by logp, for one token of ratio r."""
    logp = torch.tensor([math.log(ratio)], dtype=torch.float64, requires_grad=True)
    loss, _ = dapo(
        logp,
        prox=torch.zeros(1, dtype=torch.float64),
        advantages=torch.tensor([advantage], dtype=torch.float64),
        weights=torch.ones(1, dtype=torch.float64),
        n_tokens=n,
        objective=objective(dual_clip=dual_clip),
    )
    loss.backward()
    assert logp.grad is not None
    return float(loss.detach()), float(logp.grad)


# Bounds 0.8 and 1.3, N = 4. A > 0: s = min(r, 1.3)·A. A < 0: s = max(r, 0.8)·A, with dual clip 3 at most 3·|A|.
@pytest.mark.parametrize(
    ("ratio", "advantage", "dual", "loss", "slope"),
    [
        (0.1, 2.0, None, -0.05, -0.05),
        (1.0, 2.0, None, -0.5, -0.5),
        (10.0, 2.0, None, -0.65, 0.0),
        (0.1, -2.0, None, 0.4, 0.0),
        (1.0, -2.0, None, 0.5, 0.5),
        (10.0, -2.0, None, 5.0, 5.0),
        (10.0, -2.0, 3.0, 1.5, 0.0),
        (2.0, -2.0, 3.0, 1.0, 1.0),
    ],
)
def test_dapo_loss_and_gradient_equal_hand_values(
    ratio: float, advantage: float, dual: float | None, loss: float, slope: float
) -> None:
    found_loss, found_slope = run(ratio, advantage, dual_clip=dual)
    assert found_loss == pytest.approx(loss, abs=1e-12)
    assert found_slope == pytest.approx(slope, abs=1e-12)


def test_dapo_counts_where_a_clip_binds_by_ratio_and_sign() -> None:
    ratios = torch.tensor([0.5, 0.5, 2.0, 2.0, 9.0, 1.0])
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0, 1.0])
    _, stats = dapo(
        ratios.log(),
        prox=torch.zeros(6),
        advantages=advantages,
        weights=torch.ones(6),
        n_tokens=6,
        objective=objective(dual_clip=3.0),
    )
    assert (stats.clip_low, stats.clip_high, stats.dual_clip) == (1, 1, 1)


def test_cross_entropy_divides_by_the_global_count() -> None:
    assert float(cross_entropy(torch.tensor([-1.0, -2.0]), n_tokens=6)) == pytest.approx(0.5)


def test_tis_caps_and_icepop_drops_with_inclusive_bounds() -> None:
    v = torch.tensor([math.log(0.4), math.log(0.5), 0.0, math.log(2.0), math.log(6.0)], dtype=torch.float64)
    rows = torch.zeros(5, dtype=torch.long)
    tis = correct(v, rows, objective(correction="tis"))
    assert tis.weights.tolist() == pytest.approx([0.4, 0.5, 1.0, 2.0, 2.0])
    assert tis.capped == pytest.approx(0.2)
    exact = torch.tensor([0.0])
    assert correct(exact, rows[:1], objective(correction="icepop", icepop_range=(1.0, 5.0))).weights.tolist() == [1.0]
    icepop = correct(v, rows, objective(correction="icepop", icepop_range=(0.45, 5.0)))
    assert icepop.weights.tolist() == pytest.approx([0.0, 0.5, 1.0, 2.0, 0.0])
    assert icepop.masked == pytest.approx(0.4)


def test_geo_mask_drops_whole_rows_by_their_mean() -> None:
    # Row 0: mean v = 0.02 > log 1.01; row 1: +0.02 and -0.02 cancel.
    v = torch.tensor([0.02, 0.02, 0.02, -0.02])
    found = correct(v, torch.tensor([0, 0, 1, 1]), objective(seq_mask="geo"))
    assert found.weights.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert found.masked == pytest.approx(0.5)


def test_token_weights_of_a_long_row_stay_near_one() -> None:
    found = correct(torch.full((10_000,), 1e-3), torch.zeros(10_000, dtype=torch.long), objective(correction="tis"))
    assert float(found.weights.max()) == pytest.approx(1.001, abs=1e-5)


def test_mismatch_metrics_equal_their_definitions() -> None:
    v = np.array([0.0, math.log(2.0)])
    found = mismatch_metrics(v)
    # ρ = 1 and 2: mean 1.5, std 0.5, ESS 9/5/2 = 0.9, χ² = 2.5 - 1, k3 = mean(0, 2 - ln 2 - 1).
    assert found["is_mean"] == pytest.approx(1.5)
    assert found["is_std"] == pytest.approx(0.5)
    assert found["ess"] == pytest.approx(0.9)
    assert found["chi2"] == pytest.approx(1.5)
    assert found["k3"] == pytest.approx((1 - math.log(2.0)) / 2)
    assert found["k1"] == pytest.approx(-math.log(2.0) / 2)
    assert [alarm.metric for alarm in find_alarms(found)] == ["k1", "k3", "chi2"]


@pytest.mark.parametrize(
    ("step", "kind", "expected"),
    [
        (0, "linear", 0.5),
        (1, "linear", 1.0),
        (2, "linear", 1.0),
        (6, "linear", 0.55),
        (10, "linear", 0.1),
        (99, "linear", 0.1),
        (2, "cosine", 1.0),
        (6, "cosine", 0.55),
        (10, "cosine", 0.1),
        (99, "constant", 1.0),
    ],
)
def test_learning_rate_is_a_function_of_the_global_step(step: int, kind: str, expected: float) -> None:
    schedule = Schedule(kind=kind, warmup_steps=2, total_steps=10, end_lr=0.1)
    assert learning_rate(step, peak=1.0, schedule=schedule) == pytest.approx(expected)
