"""The training forward pass of the first mini-batch gives its proximal log-probabilities, bit-identical to a separate pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradient_case import SWITCHES, Case, Silent, draw_reference, open_case, write_case
from job_files import make_config, make_draft, make_job
from rank_processes import run_ranks
from safetensors.numpy import load_file

from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.parallel.shard import whole
from longhaul_trainer.step.command import step
from longhaul_trainer.step.forward import Scorer
from longhaul_trainer.step.prox import compute_prox
from longhaul_trainer.step.state import TrainerState
from longhaul_trainer.step.training import Trainer
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights

Found = tuple[np.ndarray[Any, Any], dict[str, torch.Tensor], dict[str, Any]]
ONE = Ranks(device=torch.device("cpu"))


def first_step(ranks: Ranks, case: Case, *, is_reused: bool) -> Found:
    """Proximal log-probabilities, gradients and metrics of the first step. The sampler differs enough for corrections to bind."""
    batch, config, _ = open_case(case)
    assert batch.behaviour_logprobs is not None
    noise = np.random.default_rng(8).normal(0, 0.9, batch.tokens)
    # Experts have no behaviour log-probabilities.
    is_sampled = (batch.loss_mask == 1) & (batch.behaviour_logprobs != 0)
    behaviour = np.where(is_sampled, batch.behaviour_logprobs + noise, 0).astype(np.float32)
    batch = replace(batch, behaviour_logprobs=behaviour)
    scorer = make_scorer(case.policy, hugging_face_weights(case.policy), ModelOptions(ranks=ranks, **case.making))
    trainer = Trainer(
        scorer=scorer,
        ranks=ranks,
        optimizer=torch.optim.SGD(scorer.parameters(), lr=0.0),
        batch=batch,
        config=config,
        prox=None,
        max_tokens=case.max_tokens,
        progress=Silent(),  # pyright: ignore[reportArgumentType]
        check_stop=lambda: None,
        reference=None if config.pull is None else draw_reference(batch),
    )
    micros = trainer.all_micro_batches(first=1 if is_reused else 0)
    trainer.prox = compute_prox(scorer, batch, micros, ranks=ranks, after_micro=lambda _: None)
    kept = []
    if is_reused:
        assert not trainer.prox.any()
        trainer.keep_prox = lambda: kept.append(np.array(trainer.prox))
    state = trainer.run_step(TrainerState(global_step=0, done=0, metrics=[], alarms=[]))
    assert len(kept) == is_reused
    assert trainer.keep_prox is None
    named = {name: whole(p.grad) for name, p in scorer.model.named_parameters() if p.grad is not None}
    return kept[0] if is_reused else trainer.prox, named, state.metrics[-1]


def expect_equal(reused: Found, separate: Found) -> None:
    assert np.count_nonzero(separate[0]) > 50
    assert np.array_equal(reused[0], separate[0])
    assert reused[1].keys() == separate[1].keys()
    for name, gradient in separate[1].items():
        assert torch.equal(reused[1][name], gradient), name
    assert reused[2] == separate[2]


@pytest.mark.parametrize("max_tokens", [100_000, 60])
@pytest.mark.parametrize("name", SWITCHES)
def test_the_first_step_has_the_same_bits_as_with_a_separate_pass(
    tmp_path: Path, policy: Path, name: str, max_tokens: int
) -> None:
    case = Case(tmp_path, policy, name, 0.8, max_tokens=max_tokens)
    write_case(case)
    reused, separate = (first_step(ONE, case, is_reused=is_reused) for is_reused in (True, False))
    expect_equal(reused, separate)
    # A correction that never binds would prove nothing.
    if SWITCHES[name]["correction"] != "none":
        assert reused[2]["tis_capped"] + reused[2]["masked_frac"] > 0


@pytest.mark.parametrize("ac", ["full", "save_attention"])
def test_a_pass_with_recomputation_gives_the_same_bits(tmp_path: Path, policy: Path, ac: str) -> None:
    case = Case(tmp_path, policy, "safe", max_tokens=60, making={"ac": ac})
    write_case(case)
    expect_equal(*(first_step(ONE, case, is_reused=is_reused) for is_reused in (True, False)))


def test_tokens_of_experts_keep_their_weight(tmp_path: Path, policy: Path) -> None:
    case = Case(tmp_path, policy, "icepop", max_tokens=60, expert_weight=0.6)
    write_case(case)
    reused, separate = (first_step(ONE, case, is_reused=is_reused) for is_reused in (True, False))
    expect_equal(reused, separate)
    assert reused[2]["expert_tokens"] > 0


def both_ways(ranks: Ranks, case: Case) -> tuple[Found, Found]:
    return first_step(ranks, case, is_reused=True), first_step(ranks, case, is_reused=False)


# Context parallel ranks hold parts of rows, which corrections by row need in full; data parallel ranks share a mini-batch.
@pytest.mark.parametrize(
    ("name", "world", "cp"),
    [
        ("geometric", 2, 2),
        ("icepop", 2, 1),
        pytest.param("gspo_both", 4, 2, marks=pytest.mark.slow),
        pytest.param("sequence", 2, 2, marks=pytest.mark.slow),
    ],
)
def test_ranks_that_share_rows_or_batch_give_the_same_bits(
    tmp_path: Path, policy: Path, name: str, world: int, cp: int
) -> None:
    case = Case(tmp_path, policy, name, max_tokens=60)
    write_case(case)
    found = run_ranks(both_ways, case, world=world, cp=cp)
    for reused, separate in found:
        expect_equal(reused, separate)
        assert np.array_equal(reused[0], found[0][0][0])


def count_passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, tuple[int, ...]]]:
    """Records each forward pass: whether it has a gradient, and its rows."""
    passes: list[tuple[bool, tuple[int, ...]]] = []
    real: Callable[..., Any] = Scorer.forward

    def forward(self: Scorer, micro: Any, *rest: Any) -> Any:
        passes.append((torch.is_grad_enabled(), micro.rows))
        return real(self, micro, *rest)

    monkeypatch.setattr(Scorer, "forward", forward)
    return passes


@pytest.mark.parametrize(("batch_size", "separate"), [(16, 0), (8, 8), (4, 12)])
def test_a_job_scores_its_first_mini_batch_once_and_stores_it_as_before(
    tmp_path: Path, policy: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int, separate: int
) -> None:
    """A job of 16 rows: with a single step no row needs a separate pass."""
    draft = make_draft(policy, stage="dapo", batch_size=batch_size)
    job = make_job(tmp_path, policy, draft, make_config("dapo", epochs=1, batch_size=batch_size, canary="none"))
    passes = count_passes(monkeypatch)
    assert step(job.write(), dry_run=False) == 0
    assert sum(len(rows) for has_gradient, rows in passes if not has_gradient) == separate
    assert sum(len(rows) for has_gradient, rows in passes if has_gradient) == 16
    stored = load_file(job.job_dir / "prox" / "prox.safetensors")["prox_logprobs"]
    # The input policy itself is the sampler.
    assert np.abs(stored - draft.tensors["behaviour_logprobs"]).max() < 1e-5
    assert np.array_equal(stored != 0, draft.tensors["loss_mask"] == 1)
