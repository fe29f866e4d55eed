"""One step on several ranks over gloo: N, loss and gradient equal the float64 reference in every layout."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradient_case import Case, expect_case, run_case, worst_error, write_case
from rank_processes import run_ranks
from reference import ReferenceStep
from tiny_policy import write_tiny_policy

from longhaul_trainer.failures import JobError
from longhaul_trainer.hf_model import load_model
from longhaul_trainer.parallel import rank_heartbeat
from longhaul_trainer.parallel.heads import check_heads
from longhaul_trainer.parallel.ranks import Ranks, alone_on_a_mesh, open_ranks
from longhaul_trainer.step.forward import gather_rows
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights

TOLERANCE = 1e-6


def step_on(ranks: Ranks, case: Case) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    return run_case(case, ranks)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> Case:
    case = Case(tmp_path_factory.mktemp("safe"), policy, "safe", 0.7)
    write_case(case)
    return case


@pytest.fixture(scope="module")
def expected(case: Case) -> ReferenceStep:
    return expect_case(case)


# max_tokens 1: eight micro-batches. 100,000: one micro-batch, so one data parallel rank runs only dummies.
@pytest.mark.parametrize(("world", "cp", "max_tokens"), [(2, 1, 1), (2, 1, 100_000), (2, 2, 60), (4, 2, 1)])
def test_layout_changes_neither_count_nor_loss_nor_gradient(
    case: Case, expected: ReferenceStep, world: int, cp: int, max_tokens: int
) -> None:
    results = run_ranks(step_on, replace(case, max_tokens=max_tokens), world=world, cp=cp)
    for found, metrics in results:
        assert metrics["n_tokens"] == expected.n_tokens
        assert metrics["loss"] == pytest.approx(expected.loss, rel=TOLERANCE, abs=TOLERANCE)
        assert worst_error(found, expected.gradients) < TOLERANCE
    assert results[0][1] == results[-1][1]


def test_scarce_kv_heads_are_replicated_over_context_parallel_ranks(tmp_path: Path) -> None:
    write_tiny_policy(tmp_path / "policy", family="qwen2", kv_heads=1)
    case = Case(tmp_path / "case", tmp_path / "policy", None)
    write_case(case)
    (found, _), _ = run_ranks(step_on, case, world=2, cp=2)
    assert worst_error(found, expect_case(case).gradients) < TOLERANCE


@pytest.mark.parametrize(
    ("heads", "kv_heads", "cp", "fits"),
    [(28, 4, 4, True), (28, 4, 28, True), (28, 4, 8, False), (28, 4, 7, False), (40, 8, 8, True), (64, 8, 3, False)],
)
def test_context_parallel_degree_must_fit_the_heads(heads: int, kv_heads: int, cp: int, fits: bool) -> None:
    if fits:
        check_heads(heads=heads, kv_heads=kv_heads, cp=cp)
        return
    with pytest.raises(JobError, match=r"execution\.cp to be one of \[1, 2, 4") as caught:
        check_heads(heads=heads, kv_heads=kv_heads, cp=cp)
    assert caught.value.code == 64


def fail_on_the_first(ranks: Ranks, number: int | None) -> tuple[str, int | None]:
    def work() -> None:
        raise ValueError("odd") if number is None else OSError(number, os.strerror(number))

    try:
        ranks.first(work)
    except JobError as error:
        return error.message, error.code
    except (OSError, ValueError) as error:
        return str(error), None
    return "", None


@pytest.mark.parametrize(
    ("number", "text", "code"),
    [
        (errno.EIO, "[Errno 5] Input/output error", 74),
        (errno.ENOSPC, "[Errno 28] No space left on device", 73),
        (None, "odd", 70),
    ],
)
def test_all_ranks_end_with_the_code_of_the_first_ones_error(number: int | None, text: str, code: int) -> None:
    """The first rank takes another rank's report for the reason of its own failure, which must not say less."""
    found = run_ranks(fail_on_the_first, number, world=2)
    assert found == [(text, None), (f"The first rank failed: {text}", code)]


def test_a_rank_on_a_full_disk_looks_silent_until_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_heartbeat, "BEAT_S", 0.01)
    # A file where the directory should be: it cannot be made.
    (tmp_path / "attempt").write_text("")
    beat = rank_heartbeat.Beat(tmp_path / "attempt" / "ranks", 1, lambda: "in phase train")
    (tmp_path / "attempt").unlink()
    deadline = time.monotonic() + 600
    while not (tmp_path / "attempt" / "ranks" / "1").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    beat.close()
    assert (tmp_path / "attempt" / "ranks" / "1").read_text().endswith(" in phase train")


def test_ranks_that_the_launcher_did_not_start_are_refused() -> None:
    with pytest.raises(JobError, match="the launcher started 1") as caught:
        open_ranks(device="cpu", world=2, cp=1)
    assert caught.value.code == 64
    with pytest.raises(JobError, match=r"execution\.cp to divide"):
        open_ranks(device="cpu", world=2, cp=3)


def scores_and_tables(ranks: Ranks, policy: Path, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scorer = make_scorer(policy, hugging_face_weights(policy), ModelOptions(ranks=ranks))
    length = ids.shape[1]
    micro = gather_rows(
        [0],
        offsets=np.array([0, length]),
        input_ids=ids[0].numpy(),
        label_mask=np.ones(length),
        device=ranks.device,
    )
    with torch.no_grad():
        return scorer(micro, 1.0)[0], scorer.model.base_model.rotary_emb.inv_freq


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_sharded_load_computes_what_a_plain_load_computes(tmp_path: Path, family: str) -> None:
    """No checkpoint contains rotary tables, and after construction on the meta device their memory is uninitialised."""
    write_tiny_policy(tmp_path / "policy", family=family)
    plain = load_model(tmp_path / "policy", device=torch.device("cpu"))
    ids = torch.randint(0, 250, (1, 60), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = plain(input_ids=ids, use_cache=False).logits[0, :-1]
    expected = torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0]
    for scores, inv_freq in run_ranks(scores_and_tables, tmp_path / "policy", ids, world=2):
        assert float((scores - expected).abs().max()) < 1e-6
        assert torch.equal(inv_freq, plain.base_model.rotary_emb.inv_freq)


def lonely_stop(ranks: Ranks) -> list[Any]:
    return [
        ranks.any(ranks.rank == 1),
        ranks.sums([ranks.rank, 0.5]),
        ranks.maxima([-ranks.rank]),
        ranks.gather("ab"[ranks.rank]),
    ]


def test_a_value_known_to_one_rank_reaches_all_ranks() -> None:
    assert run_ranks(lonely_stop, world=2) == [[True, [1.0, 1.0], [0.0], ["a", "b"]]] * 2


def step_in_bf16(ranks: Ranks, case: Case) -> tuple[dict[str, torch.Tensor], dict[str, Any], set[torch.dtype]]:
    """A step as on one GPU: a mesh of one, fp32 master weights, bf16 compute."""
    from longhaul_trainer import trainable

    trainable.COMPUTE["cpu"] = torch.bfloat16
    found, metrics = run_case(case, alone_on_a_mesh(ranks.device))
    return found, metrics, {value.dtype for value in found.values()}


def test_one_process_on_a_mesh_computes_in_bf16_and_keeps_fp32_gradients(case: Case, expected: ReferenceStep) -> None:
    ((found, metrics, dtypes),) = run_ranks(step_in_bf16, case, world=1)
    assert metrics["n_tokens"] == expected.n_tokens
    assert dtypes == {torch.float32}
    # bf16 has eight significant bits, and a ratio near a clip bound may land on its other side: close to the reference, but not to 1e-6.
    assert 1e-5 < worst_error(found, expected.gradients) < 0.25


def test_a_position_is_whole_whenever_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_heartbeat, "BEAT_S", 0)
    beat = rank_heartbeat.Beat(tmp_path, 1, lambda: "in phase train")
    try:
        while not (tmp_path / "1").exists():
            pass
        assert {(tmp_path / "1").read_text().partition(" ")[2] for _ in range(5000)} == {"in phase train"}
    finally:
        beat.close()
