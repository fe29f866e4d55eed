"""Losses, corrections and schedule against numbers computed by hand or in float64."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from longhaul_trainer.config import Objective, Schedule
from longhaul_trainer.objective.corrections import correct
from longhaul_trainer.objective.losses import cross_entropy, dapo
from longhaul_trainer.objective.metrics import LIMITS, Alarm, find_alarms, mismatch_metrics
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
    # Without validation, because a config may set only the bounds that its switches use.
    return Objective.model_construct(**values)


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


def test_dapo_counts_binding_clips_by_ratio_and_sign() -> None:
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


def stats_of(ratios: list[float], advantages: list[float], **changes: object) -> tuple[int, int, int]:
    """Counts of low clip, high clip and dual clip."""
    n = len(ratios)
    _, stats = dapo(
        torch.tensor(ratios, dtype=torch.float64).log(),
        prox=torch.zeros(n, dtype=torch.float64),
        advantages=torch.tensor(advantages, dtype=torch.float64),
        weights=torch.ones(n, dtype=torch.float64),
        n_tokens=n,
        objective=objective(**changes),
    )
    return stats.clip_low, stats.clip_high, stats.dual_clip


def test_a_token_without_advantage_or_at_a_bound_is_not_counted_as_clipped() -> None:
    assert stats_of([0.5, 2.0, 9.0], [0.0, 0.0, 0.0], dual_clip=3.0) == (0, 0, 0)
    # Both bounds and the dual clip equal the ratio: 1 is not below 1 - 0, not above 1 + 0 and not above 1.
    assert stats_of([1.0, 1.0], [1.0, -1.0], clip_low=0.0, clip_high=0.0, dual_clip=1.0) == (0, 0, 0)


@pytest.mark.parametrize(("gap", "ratio"), [(30.0, math.exp(20.0)), (-30.0, math.exp(-20.0))])
def test_a_log_ratio_above_twenty_is_clamped_and_has_no_gradient(gap: float, ratio: float) -> None:
    logp = torch.tensor([gap], dtype=torch.float64, requires_grad=True)
    # A < 0 above, A > 0 below: on these sides the clip does not act.
    advantage = torch.tensor([-1.0 if gap > 0 else 1.0], dtype=torch.float64)
    ones = torch.ones(1, dtype=torch.float64)
    loss, stats = dapo(
        logp, prox=0 * ones, advantages=advantage, weights=ones, n_tokens=1, objective=objective(dual_clip=None)
    )
    loss.backward()
    assert float(loss.detach()) == pytest.approx(-float(advantage) * ratio, rel=1e-12)
    assert stats.ratios.tolist() == pytest.approx([ratio], rel=1e-12)
    assert logp.grad is not None
    assert logp.grad.tolist() == [0.0]


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
    # Row 0: mean v = 0.02 > ln 1.01; row 1: +0.02 and -0.02 cancel.
    v = torch.tensor([0.02, 0.02, 0.02, -0.02])
    found = correct(v, torch.tensor([0, 0, 1, 1]), objective(seq_mask="geo"))
    assert found.weights.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert found.masked == pytest.approx(0.5)


def test_bounds_of_both_masks_are_inclusive_and_shares_are_of_the_tokens() -> None:
    # v = 0 gives ρ = 1 exactly, which equals a bound of 1.
    v, rows = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.long)
    for low, high in ((1.0, 5.0), (0.5, 1.0)):
        for changes in (
            {"correction": "icepop", "icepop_range": (low, high)},
            {"seq_mask": "geo", "geo_range": (low, high)},
        ):
            found = correct(v, rows, objective(**changes))
            assert (found.weights.tolist(), found.masked) == ([1.0], 0.0)
    # One token of one: the share is 1.
    found = correct(v, rows, objective(correction="icepop", icepop_range=(1.5, 5.0)))
    assert (found.weights.tolist(), found.masked, found.capped) == ([0.0], 1.0, 0.0)
    assert correct(v, rows, objective(correction="tis", tis_cap=0.5)).capped == 1.0


def test_geo_mask_uses_the_mean_and_not_the_sum() -> None:
    # Mean 0.006 < ln 1.01 = 0.00995; the sum 0.012 exceeds it.
    found = correct(torch.tensor([0.006, 0.006]), torch.tensor([0, 0]), objective(seq_mask="geo"))
    assert (found.weights.tolist(), found.masked) == ([1.0, 1.0], 0.0)


def test_the_ratio_is_of_the_policy_to_the_proximal_one() -> None:
    # log r = -1 - (-1.5) = 0.5, and log r = -1.5 - (-1) = -0.5.
    logp, prox = torch.tensor([-1.0, -1.5]), torch.tensor([-1.5, -1.0])
    ones = torch.ones(2)
    loss, stats = dapo(logp, prox=prox, advantages=-ones, weights=ones, n_tokens=2, objective=objective(clip_low=0.9))
    assert stats.ratios.tolist() == pytest.approx([math.exp(0.5), math.exp(-0.5)])
    assert float(loss) == pytest.approx((math.exp(0.5) + math.exp(-0.5)) / 2)


def test_token_weights_of_a_long_row_stay_near_one() -> None:
    found = correct(torch.full((10_000,), 1e-3), torch.zeros(10_000, dtype=torch.long), objective(correction="tis"))
    assert float(found.weights.max()) == pytest.approx(1.001, abs=1e-5)


def test_a_token_that_the_sampler_thought_impossible_gives_infinite_figures_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mismatch_metrics(np.array([0.0, 1000.0]))
    assert (found["is_max"], found["chi2"]) == (math.inf, math.inf)
    assert math.isnan(found["is_std"])
    assert math.isnan(found["ess"])


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
    assert found["is_max"] == pytest.approx(2.0)
    assert found["abs_dlogp_max"] == pytest.approx(math.log(2.0))
    # 99 % of the way from 0 to ln 2.
    assert found["abs_dlogp_p99"] == pytest.approx(0.99 * math.log(2.0))
    assert [alarm.metric for alarm in find_alarms(found)] == ["k1", "k3", "chi2"]


def test_the_largest_difference_may_be_to_either_side() -> None:
    found = mismatch_metrics(np.array([-1.0, 0.5], dtype=np.float32))
    assert found["abs_dlogp_max"] == 1.0
    assert found["k1"] == 0.25


def test_figures_at_a_limit_raise_no_alarm_and_those_beyond_it_do() -> None:
    # From verl's guide: mean within a factor of two, effective sample size 30 %, deviation and χ² 1, KL 0.1. The others are our own.
    assert LIMITS == {
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
    for side in (0, 1):
        assert find_alarms({name: bounds[side] for name, bounds in LIMITS.items()}) == []
    assert find_alarms({"ess": 0.25, "chi2": 1.5, "loss": 99.0}) == [
        Alarm(metric="ess", value=0.25, limit="[0.3, 1.1]"),
        Alarm(metric="chi2", value=1.5, limit="[-1, 1]"),
    ]


@pytest.mark.parametrize(
    ("step", "kind", "expected"),
    [
        (0, "linear", 0.5),
        (1, "linear", 1.0),
        (2, "linear", 1.0),
        # A quarter of the decay: 1 - 0.9/4, and 0.1 + 0.9·(1 + cos 45°)/2.
        (4, "linear", 0.775),
        (4, "cosine", 0.868198),
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
    schedule = Schedule.model_construct(kind=kind, warmup_steps=2, total_steps=10, end_lr=0.1)
    assert learning_rate(step, peak=1.0, schedule=schedule) == pytest.approx(expected)
