"""Algorithms by name: losses against values computed by hand, config rules, and jobs with a reference policy and a token budget."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradient_case import DRAWN, Case, expect_case, open_case, pair_up, run_case, worst_error, write_case
from job_files import JobFiles, cut_minibatches, make_config, make_draft, make_job, score_rows, sha256
from rank_processes import run_ranks
from same_end import expect_same_end, steps_of
from small_batch import load_small, make_small
from strikes import run
from strikes import run_ranks as run_job_ranks
from test_kills import outputs
from test_objectives import objective

from longhaul_trainer.batch.accounts import budget_sizes
from longhaul_trainer.config import Kl, parse_config
from longhaul_trainer.directory import seal
from longhaul_trainer.failures import JobError
from longhaul_trainer.objective.algorithms import Counts, Tokens, policy_loss
from longhaul_trainer.objective.corrections import correct
from longhaul_trainer.objective.losses import dpo, kl_to_reference
from longhaul_trainer.parallel.ranks import Ranks

LOG2 = math.log(2)


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def loss_of(
    logp: torch.Tensor,
    *,
    advantages: torch.Tensor,
    counts: Counts,
    tokens: dict[str, Any] | None = None,
    **changes: Any,
) -> tuple[float, list[float]]:
    """Loss and its derivative by each logp; prox is 0 unless `tokens` overrides it."""
    logp = logp.clone().requires_grad_()
    given = {"prox": torch.zeros_like(logp), "weights": torch.ones_like(logp), **(tokens or {})}
    named = {"algorithm": "dapo", "length": None, "entropy_coef": None, "kl": None, **changes}
    loss, _, _ = policy_loss(Tokens(logp=logp, advantages=advantages, **given), counts, objective(**named))
    loss.backward()
    assert logp.grad is not None
    return float(loss.detach()), logp.grad.tolist()


# Ratio 1 everywhere. One trajectory of one token with A = 2, another of three tokens with A = -1.
#   dapo, and cispo's slopes: -(2 - 3)/4; grpo: -(2 - 1)/2; dr_grpo with length 10: -(2 - 3)/20.
@pytest.mark.parametrize(
    ("name", "loss", "slopes"),
    [
        ("dapo", 0.25, [-0.5, 0.25, 0.25, 0.25]),
        ("grpo", -0.5, [-1.0, 1 / 6, 1 / 6, 1 / 6]),
        ("dr_grpo", 0.05, [-0.1, 0.05, 0.05, 0.05]),
        ("gspo", -0.5, [-1.0, 1 / 6, 1 / 6, 1 / 6]),
        # logp is 0, and so is the loss; the slopes are DAPO's.
        ("cispo", 0.0, [-0.5, 0.25, 0.25, 0.25]),
    ],
)
def test_each_algorithm_has_its_own_token_weights_for_short_and_long_trajectories(
    name: str, loss: float, slopes: list[float]
) -> None:
    found, gradient = loss_of(
        vector(0, 0, 0, 0),
        advantages=vector(2, -1, -1, -1),
        counts=Counts(tokens=4, trajectories=2),
        tokens={"lengths": vector(1, 3, 3, 3), "gaps": vector(0, 0, 0, 0)},
        algorithm=name,
        length=10 if name == "dr_grpo" else None,
    )
    assert found == pytest.approx(loss, abs=1e-12)
    assert gradient == pytest.approx(slopes, abs=1e-12)


@pytest.mark.parametrize(
    ("advantage", "loss", "slope"),
    # log r = 0.2 and 0.4, so s = e^0.3 = 1.34986 > 1.3: clipped without gradient for A > 0; for A < 0 each token has slope s/2.
    # With clipping per token, the first token (e^0.2 = 1.2214) would keep its gradient.
    [(1.0, -1.3, [0.0, 0.0]), (-1.0, math.exp(0.3), [math.exp(0.3) / 2] * 2)],
)
def test_gspo_clips_the_geometric_mean_of_a_row(advantage: float, loss: float, slope: list[float]) -> None:
    found, gradient = loss_of(
        vector(0.2, 0.4),
        advantages=vector(advantage, advantage),
        counts=Counts(tokens=2, trajectories=1),
        tokens={"lengths": vector(2, 2), "gaps": vector(0.3, 0.3)},
        algorithm="gspo",
    )
    assert found == pytest.approx(loss, rel=1e-12)
    assert gradient == pytest.approx(slope, rel=1e-12)


def test_gspo_takes_the_dual_clip_of_a_whole_row() -> None:
    # s = e^0.3 = 1.34986 exceeds the dual clip 1.2, and A < 0: the loss is 1.2.
    found, gradient = loss_of(
        vector(0.2, 0.4),
        advantages=vector(-1, -1),
        counts=Counts(tokens=2, trajectories=1),
        tokens={"lengths": vector(2, 2), "gaps": vector(0.3, 0.3)},
        algorithm="gspo",
        dual_clip=1.2,
    )
    assert (found, gradient) == (pytest.approx(1.2, rel=1e-12), [0.0, 0.0])


# Bounds 0.8 and 1.3, N = 1. r = 2 is clipped to 1.3, r = 0.1 to 0.8. The gradient is that weight times A, for either sign.
@pytest.mark.parametrize(
    ("ratio", "advantage", "weight"), [(2.0, 1.0, 1.3), (0.1, -2.0, 0.8), (0.1, 3.0, 0.8), (1.1, 1.0, 1.1)]
)
def test_cispo_clips_the_weight_and_keeps_the_gradient(ratio: float, advantage: float, weight: float) -> None:
    found, gradient = loss_of(
        vector(-0.5),
        advantages=vector(advantage),
        counts=Counts(tokens=1, trajectories=1),
        tokens={"prox": vector(-0.5 - math.log(ratio))},
        algorithm="cispo",
    )
    assert found == pytest.approx(weight * advantage * 0.5, rel=1e-12)
    assert gradient == pytest.approx([-weight * advantage], rel=1e-12)


def test_cispo_counts_the_tokens_beyond_its_bounds() -> None:
    # Both bounds are 1, so a ratio of exactly 1 is within them.
    logp = vector(0, 0, 0, 0).requires_grad_()
    prox = vector(*[-math.log(ratio) for ratio in (0.5, 1, 1.5, 2)])
    tokens = Tokens(logp=logp, prox=prox, advantages=vector(1, 1, 1, 1), weights=vector(1, 1, 1, 1))
    settings = objective(algorithm="cispo", clip_low=0.0, clip_high=0.0, length=None, entropy_coef=None, kl=None)
    _, stats, _ = policy_loss(tokens, Counts(tokens=4, trajectories=1), settings)
    assert (stats.clip_low, stats.clip_high, stats.dual_clip) == (1, 2, 0)
    assert stats.ratios.tolist() == pytest.approx([0.5, 1, 1.5, 2])
    assert not stats.ratios.requires_grad


@pytest.mark.parametrize(
    ("name", "own", "imitated"),
    [
        # Own: one token with A = 3. Experts: weight 0.5 and logp -1, weight 2 and logp -0.25. dapo divides by 4 tokens, dr_grpo by
        # 3 trajectories of length 2, grpo and gspo by 3 trajectories and each token by the length of its own: 1, 1 and 2.
        ("dapo", [-3 / 4], [-0.5 / 4, -2 / 4]),
        ("dr_grpo", [-3 / 6], [-0.5 / 6, -2 / 6]),
        ("grpo", [-3 / 3], [-0.5 / 3, -1 / 3]),
        ("gspo", [-3 / 3], [-0.5 / 3, -1 / 3]),
    ],
)
def test_experts_are_imitated_with_their_weights_and_have_no_ratio(
    name: str, own: list[float], imitated: list[float]
) -> None:
    logp = vector(-0.5, -1, -0.25).requires_grad_()
    tokens = Tokens(
        logp=logp,
        # A ratio of an expert's token would make the loss NaN.
        prox=vector(-0.5, math.nan, math.nan),
        advantages=vector(3, 0.5, 2),
        weights=vector(1, math.nan, math.nan),
        lengths=vector(1, 1, 2),
        gaps=vector(0, math.nan, math.nan),
        reference=vector(-0.5 + LOG2, math.nan, math.nan),
        experts=torch.tensor([False, True, True]),
    )
    # d = ln 2, so k3 = 1 - ln 2; its coefficient of 0 leaves the loss alone.
    kl = Kl.model_construct(coef=0.0, reference_sha256=DRAWN)
    settings = objective(algorithm=name, length=2 if name == "dr_grpo" else None, entropy_coef=None, kl=kl)
    loss, stats, divergence = policy_loss(tokens, Counts(tokens=4, trajectories=3), settings)
    loss.backward()
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([*own, *imitated], rel=1e-12)
    # At ratio 1 the own term equals its slope; the imitation term is the sum of slope · logp.
    assert float(loss.detach()) == pytest.approx(own[0] - imitated[0] - 0.25 * imitated[1], rel=1e-12)
    assert stats.ratios.tolist() == [1.0]
    assert float(divergence) == pytest.approx(1 - LOG2, rel=1e-12)
    assert (divergence.dtype, divergence.requires_grad) == (torch.float64, False)


def test_the_divergence_is_a_double_and_0_without_a_reference() -> None:
    tokens = Tokens(logp=torch.zeros(1), prox=torch.zeros(1), advantages=torch.ones(1), weights=torch.ones(1))
    settings = objective(algorithm="dapo", length=None, entropy_coef=None, kl=None)
    _, _, divergence = policy_loss(tokens, Counts(tokens=1, trajectories=1), settings)
    assert (float(divergence), divergence.dtype) == (0.0, torch.float64)


@pytest.mark.parametrize("name", ["grpo", "gspo"])
def test_a_tensor_that_the_algorithm_needs_may_not_be_missing(name: str) -> None:
    with pytest.raises(ValueError, match=r"^Expected every tensor that the objective reads$"):
        loss_of(vector(0), advantages=vector(1), counts=Counts(tokens=1, trajectories=1), algorithm=name)


def test_dr_grpo_needs_a_length() -> None:
    with pytest.raises(ValueError, match=r"^Expected objective\.length with algorithm dr_grpo$"):
        loss_of(vector(0), advantages=vector(1), counts=Counts(tokens=1, trajectories=1), algorithm="dr_grpo")


# Log ratios beyond ±20 count as ±20.
@pytest.mark.parametrize(("gap", "advantage", "loss"), [(30.0, -1.0, math.exp(20)), (-30.0, 1.0, -math.exp(-20))])
def test_a_row_of_gspo_has_a_bounded_ratio(gap: float, advantage: float, loss: float) -> None:
    found, _ = loss_of(
        vector(0),
        advantages=vector(advantage),
        counts=Counts(tokens=1, trajectories=1),
        tokens={"lengths": vector(1), "gaps": vector(gap)},
        algorithm="gspo",
    )
    assert found == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize(("d", "k3"), [(30.0, math.exp(20) - 21), (-30.0, math.exp(-20) + 19)])
def test_the_divergence_of_a_token_is_bounded_and_has_no_gradient_there(d: float, k3: float) -> None:
    logp = vector(0).requires_grad_()
    found = kl_to_reference(logp, vector(d))
    found.sum().backward()
    assert float(found.detach()) == pytest.approx(k3, rel=1e-12)
    assert logp.grad is not None
    assert logp.grad.tolist() == [0.0]


def test_entropy_and_divergence_are_averaged_as_the_algorithm_averages() -> None:
    # Entropies 1 and 3; d = ref - logp = ln 2 and 0, so k3 = 2 - ln 2 - 1 and 0, with slopes 1 - e^d = -1 and 0.
    given = {
        "entropy": vector(1, 3),
        "reference": vector(LOG2, 0),
        "lengths": vector(1, 2),
        "gaps": vector(0, 0),
    }
    extras = {"entropy_coef": 0.5, "kl": Kl(coef=2.0, reference_sha256=DRAWN)}
    k3 = 1 - LOG2
    for name, length, shares in (
        ("dapo", None, (1 / 8, 1 / 8)),
        ("cispo", None, (1 / 8, 1 / 8)),
        ("grpo", None, (1 / 4, 1 / 8)),
        ("gspo", None, (1 / 4, 1 / 8)),
        ("dr_grpo", 5, (1 / 20, 1 / 20)),
    ):
        found, gradient = loss_of(
            vector(0, 0),
            advantages=vector(0, 0),
            counts=Counts(tokens=8, trajectories=4),
            tokens=given,
            algorithm=name,
            length=length,
            **extras,
        )
        first, second = shares
        assert found == pytest.approx(-0.5 * (first * 1 + second * 3) + 2 * first * k3, rel=1e-12), name
        assert gradient == pytest.approx([-2 * first, 0.0], abs=1e-12), name


def test_row_corrections_use_the_product_or_the_geometric_mean() -> None:
    # Row 0: ratios 2 and 4, product 8, mean √8 = 2.83; row 1: ½ and ¼.
    v, rows = vector(LOG2, 2 * LOG2, -LOG2, -2 * LOG2), torch.tensor([0, 0, 1, 1])
    product = correct(v, rows, objective(correction="sequence_tis"))
    assert product.weights.tolist() == pytest.approx([2.0, 2.0, 0.125, 0.125])
    assert (product.capped, product.masked) == (0.5, 0.0)
    geometric = correct(v, rows, objective(correction="geometric_tis", tis_cap=3.0))
    assert geometric.weights.tolist() == pytest.approx([8**0.5, 8**0.5, 8**-0.5, 8**-0.5])
    assert geometric.capped == 0.0
    # A product of thousands of small gaps stays finite.
    long = correct(
        torch.full((9000,), -0.01), torch.zeros(9000, dtype=torch.long), objective(correction="sequence_tis")
    )
    assert float(long.weights[0]) == pytest.approx(math.exp(-20), rel=1e-6)
    assert long.weights.dtype == torch.float32
    open_ended = objective(correction="sequence_tis", tis_cap=1e12)
    long = correct(torch.full((9000,), 0.01), torch.zeros(9000, dtype=torch.long), open_ended)
    assert float(long.weights[0]) == pytest.approx(math.exp(20), rel=1e-6)
    # A product that equals the cap is not cut.
    level = correct(vector(0, 0), torch.tensor([0, 0]), objective(correction="sequence_tis", tis_cap=1.0))
    assert (level.weights.tolist(), level.capped) == ([1.0, 1.0], 0.0)


def stated(**changes: Any) -> bytes:
    config = make_config("dapo")
    del config["objective"]["tis_cap"]
    config["objective"] = {**config["objective"], "correction": "none", "dual_clip": "none", **changes}
    return json.dumps(config).encode()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "ppo"}, "algorithm"),
        ({"algorithm": "dr_grpo"}, "Expected field `length`"),
        ({"algorithm": "grpo", "length": 9}, "length .it belongs to algorithm dr_grpo"),
        ({"algorithm": "cispo", "dual_clip": 3.0}, "dual_clip in config.objective to be none with algorithm cispo"),
        ({"algorithm": "gspo", "correction": "tis"}, "of whole rows with algorithm gspo"),
        ({"algorithm": "gspo", "correction": "icepop"}, "of whole rows with algorithm gspo"),
        (
            {"correction": "icepop", "tis_cap": 2.0},
            "tis_cap .it belongs to correction tis, sequence_tis, geometric_tis",
        ),
        ({"entropy_coef": 0.0}, "entropy_coef"),
        ({"kl": {"coef": 0.1}}, "reference_sha256"),
        ({"kl": {"coef": 0.0, "reference_sha256": DRAWN}}, "coef"),
        ({"prox": "behaviour", "correction": "sequence_tis"}, "to be none with prox behaviour"),
    ],
)
def test_an_option_that_the_algorithm_ignores_or_lacks_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message) as caught:
        parse_config(stated(**changes))
    assert caught.value.code == 64


def test_a_config_counts_trajectories_or_tokens() -> None:
    config = json.loads(stated())
    for wrong in ({"token_budget": 9}, {"batch_size": None}):
        with pytest.raises(JobError, match="either `batch_size` or `token_budget`"):
            parse_config(json.dumps({**config, **wrong}).encode())
    del config["batch_size"]
    assert parse_config(json.dumps({**config, "token_budget": 9}).encode()).token_budget == 9
    config["objective"]["algorithm"] = "grpo"
    with pytest.raises(JobError, match="token_budget goes with algorithm dapo, cispo"):
        parse_config(json.dumps({**config, "token_budget": 9}).encode())


@pytest.mark.parametrize(
    ("tokens", "sizes"),
    [
        ([3, 3, 5, 2, 9, 1], [2, 1, 1, 1, 1]),
        # A trajectory above the budget forms its own mini-batch.
        ([7, 1, 5], [1, 2]),
        ([6], [1]),
        ([1, 1, 1, 1, 1, 1, 1], [6, 1]),
    ],
)
def test_a_token_budget_fills_mini_batches_in_order(tokens: list[int], sizes: list[int]) -> None:
    assert budget_sizes(tokens, 6) == sizes


def test_a_batch_that_was_cut_for_another_budget_is_refused(tmp_path: Path) -> None:
    # Loss tokens in row order: b 3, a 2, c 1. A budget of five holds b and a; a budget of six holds all.
    batch = load_small(make_small(), tmp_path, batch_size=None, token_budget=5)
    assert [(part.trajectories, part.loss_tokens) for part in batch.minibatches] == [(2, 5), (1, 1)]
    assert batch.owners.tolist() == [1, 1, 0, 2]
    with pytest.raises(JobError, match="Expected 1 mini-batches for 3 trajectories at 6 loss tokens, found 2"):
        load_small(make_small(), tmp_path, batch_size=None, token_budget=6)
    with pytest.raises(JobError, match="Expected 3 mini-batches for 3 trajectories at 2 loss tokens, found 2"):
        load_small(make_small(), tmp_path, batch_size=None, token_budget=2)


def step_on(ranks: Ranks, case: Case) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    return run_case(case, ranks)


# Context parallel ranks hold parts of a row; GSPO needs the ratio of the full row.
@pytest.mark.parametrize(("name", "world", "cp"), [("gspo_both", 2, 2), ("grpo", 2, 1)])
def test_two_ranks_take_the_same_step_as_one(tmp_path: Path, policy: Path, name: str, world: int, cp: int) -> None:
    case = Case(tmp_path, policy, name, max_tokens=60)
    write_case(case)
    expected = expect_case(case)
    for found, metrics in run_ranks(step_on, case, world=world, cp=cp):
        assert metrics["loss"] == pytest.approx(expected.loss, rel=1e-6, abs=1e-6)
        assert worst_error(found, expected.gradients) < 1e-6


def test_a_constant_token_budget_replaces_the_token_count_as_divisor(tmp_path: Path, policy: Path) -> None:
    case = Case(tmp_path, policy, "paper", token_budget=1000)
    write_case(case)
    found, metrics = run_case(case)
    expected = expect_case(case)
    assert metrics["n_tokens"] < 1000
    assert metrics["loss"] == pytest.approx(expected.loss, rel=1e-5, abs=1e-7)
    assert worst_error(found, expected.gradients) < 1e-6


@pytest.mark.parametrize("name", ["grpo", "gspo"])
def test_each_turn_is_trained_by_its_own_advantage(tmp_path: Path, policy: Path, name: str) -> None:
    case, plain = Case(tmp_path / "turns", policy, name, step_weight=0.7), Case(tmp_path / "plain", policy, name)
    for one in (case, plain):
        write_case(one)
    found, metrics = run_case(case)
    expected = expect_case(case)
    assert metrics["loss"] == pytest.approx(expected.loss, rel=1e-6, abs=1e-6)
    assert worst_error(found, expected.gradients) < 1e-6
    # The advantages of turns change the gradient noticeably.
    assert worst_error(found, expect_case(plain).gradients) > 1e-2


# DAPO's mean and two others, with KL, entropy bonus, and corrections by token and by row.
@pytest.mark.parametrize(
    ("name", "more"), [("safe", {}), ("icepop", {}), ("grpo", {"step_weight": 0.4}), ("dr_grpo", {}), ("gspo_both", {})]
)
def test_experts_are_imitated_beside_the_policys_own_tokens(
    tmp_path: Path, policy: Path, name: str, more: dict[str, Any]
) -> None:
    case = Case(tmp_path / "case", policy, name, expert_weight=0.6, **more)
    write_case(case)
    found, metrics = run_case(case)
    expected = expect_case(case)
    assert metrics["loss"] == pytest.approx(expected.loss, rel=1e-6, abs=1e-6)
    assert worst_error(found, expected.gradients) < 1e-6
    batch, _, _ = open_case(case)
    assert batch.experts is not None
    imitated = sum(int(batch.loss_mask[batch.offsets[row] : batch.offsets[row + 1]].sum()) for row in (1, 6))
    assert metrics["expert_tokens"] == imitated
    assert metrics["n_tokens"] == expected.n_tokens > imitated


def test_experts_on_two_ranks_give_the_same_step_as_on_one(tmp_path: Path, policy: Path) -> None:
    case = Case(tmp_path, policy, "gspo_both", max_tokens=60, expert_weight=0.6)
    write_case(case)
    expected = expect_case(case)
    for found, metrics in run_ranks(step_on, case, world=2, cp=2):
        assert metrics["loss"] == pytest.approx(expected.loss, rel=1e-6, abs=1e-6)
        assert worst_error(found, expected.gradients) < 1e-6


def test_a_step_of_experts_alone_has_no_ratio(tmp_path: Path, policy: Path) -> None:
    case = Case(tmp_path, policy, "paper", expert_weight=0.5)
    write_case(case, experts=tuple(range(8)))
    found, metrics = run_case(case)
    expected = expect_case(case)
    assert metrics["loss"] == pytest.approx(0.5 * metrics["expert_nll"], rel=1e-6)
    assert worst_error(found, expected.gradients) < 1e-6
    assert not {"ess", "ratio_mean", "k1"} & metrics.keys()


def test_dpo_is_minus_the_log_of_the_logistic_of_the_margin() -> None:
    # One pair: two tokens chosen, one rejected; m = ln 3, so σ(m) = 3/4 and σ(-m) = 1/4. With P = 2: ln(4/3) / 2, slopes ±0.5 · 1/4 / 2.
    # The log-probabilities themselves must not appear in the value: theirs do not cancel.
    logp = vector(-1, -2, -4).requires_grad_()
    margins, shares = vector(*[math.log(3)] * 3), vector(*[1 / 3] * 3)
    loss = dpo(logp, signs=vector(1, 1, -1), margins=margins, shares=shares, beta=0.5, pairs=2)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(math.log(4 / 3) / 2, rel=1e-12)
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([-0.0625, -0.0625, 0.0625], rel=1e-12)
    # Margins of thousands give finite losses.
    for margin, value in ((-3000.0, 3000.0), (3000.0, 0.0)):
        found = dpo(vector(0), signs=vector(1), margins=vector(margin), shares=vector(1), beta=1.0, pairs=1)
        assert float(found) == pytest.approx(value)


@pytest.mark.parametrize("max_tokens", [100_000, 1])
def test_pairs_give_the_loss_and_gradient_of_dpo_in_one_micro_batch_or_eight(
    tmp_path: Path, policy: Path, max_tokens: int
) -> None:
    case = Case(tmp_path, policy, beta=0.3, temperature=0.8, max_tokens=max_tokens)
    write_case(case)
    found, metrics = run_case(case)
    expected = expect_case(case)
    assert metrics["loss"] == pytest.approx(expected.loss, rel=1e-6)
    assert worst_error(found, expected.gradients) < 1e-6
    assert (metrics["n_tokens"], metrics["pairs"]) == (expected.n_tokens, 4)
    assert metrics["entropy"] == pytest.approx(expected.entropy, rel=1e-6)
    # With the random reference some margins are positive and some negative.
    assert 0 < metrics["pair_accuracy"] < 1
    assert (metrics["chosen_reward"], metrics["rejected_reward"]) == pytest.approx(expected.rewards, rel=1e-5)


@pytest.mark.parametrize("cp", [1, 2])
def test_pairs_on_two_ranks_give_the_same_step_as_on_one(tmp_path: Path, policy: Path, cp: int) -> None:
    case = Case(tmp_path, policy, beta=0.3, max_tokens=60)
    write_case(case)
    expected = expect_case(case)
    for found, metrics in run_ranks(step_on, case, world=2, cp=cp):
        assert metrics["loss"] == pytest.approx(expected.loss, rel=1e-6)
        assert worst_error(found, expected.gradients) < 1e-6


def preferring_job(root: Path, policy: Path, reference: Path) -> JobFiles:
    draft = make_draft(policy, stage="dapo", groups=2)
    pair_up(draft)
    draft.manifest["minibatches"] = cut_minibatches(draft.tensors, 4)
    manifest = sha256((reference / "MANIFEST.json").read_bytes())
    config = make_config("dapo", batch_size=4)
    del config["objective"]
    config["dpo"] = {"coef": 0.1, "reference_sha256": manifest}
    job = make_job(root, policy, draft, config)
    job.spec["reference"] = {"uri": f"file://{reference}", "manifest_sha256": manifest}
    return job


def test_a_job_of_pairs_that_is_killed_ends_in_the_same_bits(tmp_path: Path, policy: Path) -> None:
    whole, cut = (preferring_job(tmp_path / name, policy, policy) for name in ("whole", "cut"))
    assert run(whole.write()) == 0
    steps = steps_of(whole)
    # At first the policy equals its reference: margin 0, loss ln 2. Later steps separate the same pairs.
    assert steps[0]["loss"] == pytest.approx(LOG2, abs=1e-6)
    assert [step["pairs"] for step in steps] == [2, 2, 2, 2]
    assert steps[2]["loss"] < steps[0]["loss"]
    assert steps[2]["chosen_reward"] > steps[2]["rejected_reward"]
    assert run(cut.write(), strike="KILL@after-update:2") == -signal.SIGKILL
    assert run(cut.write(fence=2, attempt=2)) == 0
    assert outputs(cut) == outputs(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": make_config("dapo")["objective"]}, "either field `objective` or field `dpo`"),
        ({"dpo": None}, "either field `objective` or field `dpo`"),
        ({"batch_size": 3}, "an even `batch_size` in config with dpo, got 3"),
        ({"batch_size": None, "token_budget": 9}, "token_budget goes with algorithm dapo, cispo"),
        ({"stage": "rft", "max_policy_lag": None}, "`dpo` in config to be left out with stage rft"),
    ],
)
def test_a_config_of_pairs_with_an_unsupported_option_is_refused(change: dict[str, Any], message: str) -> None:
    config = make_config("dapo", dpo={"coef": 0.1, "reference_sha256": DRAWN})
    del config["objective"]
    assert parse_config(json.dumps(config).encode()).pull is not None
    with pytest.raises(JobError, match=message) as caught:
        parse_config(json.dumps({**config, **change}).encode())
    assert caught.value.code == 64


def pulled_job(root: Path, policy: Path, reference: Path, **changes: Any) -> JobFiles:
    config = make_config("dapo")
    manifest = sha256((reference / "MANIFEST.json").read_bytes())
    # The mean differs from DAPO's, and every extra term is on.
    config["objective"] |= {
        "algorithm": "grpo",
        "entropy_coef": 0.01,
        "kl": {"coef": 0.1, "reference_sha256": manifest},
    }
    job = make_job(root, policy, make_draft(policy, stage="dapo"), config, **changes)
    job.spec["reference"] = {"uri": f"file://{reference}", "manifest_sha256": manifest}
    return job


@pytest.fixture(scope="module")
def pulled(tmp_path_factory: pytest.TempPathFactory, policy: Path, other_policy: Path) -> JobFiles:
    job = pulled_job(tmp_path_factory.mktemp("pulled"), policy, other_policy)
    assert run(job.write()) == 0
    return job


def test_a_job_measures_its_distance_from_the_reference_policy(
    pulled: JobFiles, policy: Path, other_policy: Path
) -> None:
    draft = make_draft(policy, stage="dapo")
    offsets, mask = draft.tensors["row_offsets"], draft.tensors["loss_mask"]
    first = draft.manifest["minibatches"][0]["rows"]
    rows = [draft.tensors["input_ids"][offsets[at] : offsets[at + 1]].tolist() for at in range(first)]
    trained = np.concatenate([mask[offsets[at] : offsets[at + 1]] for at in range(first)]) == 1
    own, theirs = (np.concatenate(score_rows(path, rows))[trained] for path in (policy, other_policy))
    d = theirs - own
    steps = steps_of(pulled)
    assert steps[0]["kl_reference"] == pytest.approx(float((np.exp(d) - d - 1).mean()), rel=1e-5)
    assert len({step["kl_reference"] for step in steps}) == 4


@pytest.mark.parametrize("place", ["reference.renamed", "after-update:2"])
def test_a_killed_job_with_a_reference_ends_in_the_same_bits(
    tmp_path: Path, policy: Path, other_policy: Path, pulled: JobFiles, place: str
) -> None:
    job = pulled_job(tmp_path, policy, other_policy)
    assert run(job.write(), strike=f"KILL@{place}") == -signal.SIGKILL
    assert run(job.write(fence=2, attempt=2)) == 0
    assert outputs(job) == outputs(pulled)


def test_two_ranks_train_towards_the_reference_like_one(
    tmp_path: Path, policy: Path, other_policy: Path, pulled: JobFiles
) -> None:
    job = pulled_job(tmp_path, policy, other_policy, execution={"ranks_per_node": 2})
    assert run_job_ranks(job.write(), world=2) == [0, 0]
    expect_same_end(job, pulled, policy)


@pytest.mark.parametrize("wrong", ["missing", "another", "unasked", "torn"])
def test_a_reference_other_than_the_one_of_the_config_is_refused(
    tmp_path: Path, policy: Path, other_policy: Path, wrong: str
) -> None:
    job = pulled_job(tmp_path / "job", policy, other_policy)
    if wrong == "missing":
        del job.spec["reference"]
    elif wrong == "another":
        job.spec["reference"]["manifest_sha256"] = "e" * 64
    elif wrong == "torn":
        job.spec["reference"]["uri"] = f"file://{tmp_path / 'nowhere'}"
    else:
        plain = make_job(tmp_path / "plain", policy, make_draft(policy, stage="dapo"), make_config("dapo"))
        plain.spec["reference"] = job.spec["reference"]
        job = plain
    assert run(job.write()) == (66 if wrong == "torn" else 64)
    assert ("spec.reference" in job.exit_report()["message"]) == (wrong != "torn")


def test_a_checkpoint_and_a_policy_with_another_tokenizer_are_no_reference(
    tmp_path: Path, policy: Path, other_policy: Path
) -> None:
    def refusal(name: str, kind: str, tokenizer: bytes | None) -> str:
        reference = tmp_path / name
        reference.mkdir()
        for path in other_policy.iterdir():
            if path.is_file() and path.name not in ("MANIFEST.json", "COMMITTED"):
                (reference / path.name).write_bytes(path.read_bytes())
        if tokenizer is None:
            (reference / "tokenizer.json").unlink()
        else:
            (reference / "tokenizer.json").write_bytes(tokenizer)
        seal(reference, kind=kind, facts={})
        job = pulled_job(tmp_path / f"job-{name}", policy, reference)
        assert run(job.write()) == 64
        return str(job.exit_report()["message"])

    own = (policy / "tokenizer.json").read_bytes()
    assert "spec.reference to be a policy directory, got a checkpoint" in refusal("checkpoint", "checkpoint", own)
    for name, tokenizer in (("without", None), ("another", own + b" ")):
        assert "the reference to have the input's tokenizer" in refusal(name, "policy", tokenizer)
