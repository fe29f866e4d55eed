"""Losses and gradients of the real step against the float64 reference (`reference.py`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gradient_case import ALGORITHMS, Case, expect_case, open_case, run_case, worst_error, write_case
from reference import ReferenceStep
from tiny_policy import write_tiny_policy

from longhaul_trainer import head
from longhaul_trainer.batch.micro import cut_micro_batches
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.step.forward import gather_rows
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights

TOLERANCE = 1e-6
CASES = [("rft", None, 1.0), ("safe", "safe", 0.7), ("icepop", "icepop", 1.0), ("paper", "paper", 1.3)]
CASES += [(name, name, 0.8 if at % 2 else 1.0) for at, name in enumerate(ALGORITHMS)]


@pytest.fixture(scope="module", params=CASES, ids=[name for name, *_ in CASES])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, policy: Path) -> Case:
    name, objective, temperature = request.param
    case = Case(tmp_path_factory.mktemp(name), policy, objective, temperature)
    write_case(case)
    return case


@pytest.fixture(scope="module")
def expected(case: Case) -> ReferenceStep:
    return expect_case(case)


def limits(case: Case) -> dict[str, int]:
    """Values of max_tokens that cut the eight rows into 1, 2 and 8 micro-batches."""
    batch, _, _ = open_case(case)
    lengths = [batch.row_length(row) for row in range(batch.rows)]
    found = {"1x8": sum(lengths), "2x4": sum(lengths) // 2 + 8, "8x1": 1}
    assert [len(cut_micro_batches(lengths, max_tokens=limit)) for limit in found.values()] == [1, 2, 8]
    return found


@pytest.mark.parametrize("shape", ["1x8", "2x4", "8x1"])
@pytest.mark.parametrize("chunks", ["chunked", "plain"])
def test_gradient_equals_the_reference_for_any_packing_of_rows(
    case: Case, expected: ReferenceStep, shape: str, chunks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chunks == "chunked":
        monkeypatch.setattr(head, "TOKENS", 7)
        monkeypatch.setattr(head, "VOCABULARY", 50)
    else:
        monkeypatch.setattr(head, "label_logprobs", plain_head)
    found, metrics = run_case(replace(case, max_tokens=limits(case)[shape]))
    assert metrics["n_tokens"] == expected.n_tokens
    assert metrics["loss"] == pytest.approx(expected.loss, rel=TOLERANCE, abs=TOLERANCE)
    assert metrics["entropy"] == pytest.approx(expected.entropy, rel=TOLERANCE)
    assert worst_error(found, expected.gradients) < TOLERANCE


def plain_head(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    temperature: float,
    *,
    entropy_trains: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    logprobs = torch.log_softmax((hidden @ weight.T).float() / temperature, -1)
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    entropy = entropy if entropy_trains else entropy.detach()
    return logprobs.gather(1, targets[:, None])[:, 0], entropy


def test_every_correction_binds_in_at_least_one_of_these_cases(case: Case) -> None:
    """Without it the comparison above would prove nothing about the switch."""
    _, metrics = run_case(case)
    names = {
        "safe": ["clip_low", "clip_high", "dual_clip", "tis_capped"],
        "icepop": ["masked_frac"],
        "grpo": ["clip_low", "clip_high", "kl_reference"],
        "dr_grpo": ["clip_low", "clip_high", "dual_clip", "tis_capped"],
        "gspo": ["clip_low", "clip_high"],
        "gspo_both": ["tis_capped", "kl_reference"],
        "cispo": ["clip_low", "clip_high", "masked_frac"],
        "sequence": ["tis_capped", "kl_reference"],
        "geometric": ["tis_capped"],
    }
    for name in names.get(case.objective or "", []):
        assert metrics[name] > 0, name


def test_untied_model_with_biases_gives_the_reference_gradient(tmp_path: Path) -> None:
    write_tiny_policy(tmp_path / "qwen2", family="qwen2", kv_heads=1)
    case = Case(tmp_path / "case", tmp_path / "qwen2")
    write_case(case)
    found, _ = run_case(case)
    expected = expect_case(case)
    assert {"lm_head.weight", "model.layers.0.self_attn.q_proj.bias"} <= found.keys()
    assert worst_error(found, expected.gradients) < TOLERANCE


def test_values_at_masked_positions_change_nothing(tmp_path: Path, policy: Path) -> None:
    """0 · NaN is NaN, so masked values must be left out before any exp, not multiplied by 0 afterwards."""
    case = Case(tmp_path, policy)
    write_case(case)
    clean, _ = run_case(case)
    with pytest.MonkeyPatch.context() as monkeypatch:
        import gradient_case

        def poisoned(case: Case) -> tuple:
            batch, config, prox = open_case(case)
            assert prox is not None
            masked = np.asarray(batch.loss_mask) == 0
            arrays = {
                name: np.where(masked, np.nan, getattr(batch, name)).astype(np.float32)
                for name in ("behaviour_logprobs", "advantages")
            }
            return replace(batch, **arrays), config, np.where(masked, np.nan, prox).astype(np.float32)

        monkeypatch.setattr(gradient_case, "open_case", poisoned)
        found, metrics = run_case(case)
    assert np.isfinite(metrics["loss"])
    assert all(torch.equal(found[name], clean[name]) for name in clean)


def test_edit_of_one_row_leaves_every_bit_of_the_others(policy: Path) -> None:
    ranks = Ranks(device=torch.device("cpu"))
    scorer = make_scorer(policy, hugging_face_weights(policy), ModelOptions(ranks=ranks))
    rng = np.random.default_rng(0)
    offsets = np.array([0, 9, 30, 37])
    ids = rng.integers(0, 256, 37).astype(np.int32)

    def score(ids: np.ndarray) -> dict[int, float]:
        micro = gather_rows([1, 0, 2], offsets=offsets, input_ids=ids, label_mask=np.ones(37), device=ranks.device)
        with torch.no_grad():
            return dict(zip(micro.index.tolist(), scorer(micro, 1.0)[0].tolist(), strict=True))

    edited = ids.copy()
    edited[12:25] = (edited[12:25] + 1) % 256
    before, after = score(ids), score(edited)
    # Every token but the first of each row has exactly one log-probability.
    assert sorted(before) == [*range(1, 9), *range(10, 30), *range(31, 37)]
    changed = {at for at in before if before[at] != after[at]}
    assert changed
    assert all(12 <= at < 30 for at in changed)


def test_truncated_turn_trains_its_tokens_and_nothing_after_them(policy: Path) -> None:
    """A turn truncated at its token limit has no end token. The row ends with its last sampled token, which counts as a label."""
    mask = np.array([0, 0, 1, 1, 0, 0, 0, 1, 1], dtype=np.uint8)
    micro = gather_rows(
        [0],
        offsets=np.array([0, 9]),
        input_ids=np.arange(9, dtype=np.int32),
        label_mask=mask,
        device=torch.device("cpu"),
    )
    assert micro.predictors.tolist() == [1, 2, 6, 7]
    assert micro.targets.tolist() == [2, 3, 7, 8]


@pytest.mark.parametrize("cp", [2, 4])
def test_context_parallel_parts_hold_each_label_once_with_its_own_target(cp: int) -> None:
    """Labels are shifted before the sequence is split: the last token of a part predicts the first token of the next part."""
    offsets, ids = np.array([0, 5, 11]), np.arange(100, 111, dtype=np.int32)
    mask = np.ones(11)
    parts = [
        gather_rows(
            [1, 0], offsets=offsets, input_ids=ids, label_mask=mask, device=torch.device("cpu"), cp=cp, cp_rank=rank
        )
        for rank in range(cp)
    ]
    assert sorted(at for part in parts for at in part.index.tolist()) == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert parts[0].row_lengths == (6, 5, 1)
    tokens = torch.cat([part.tokens for part in parts], 1)[0].tolist()
    assert tokens == [*range(105, 111), *range(100, 105), 0]
    assert torch.cat([part.positions for part in parts], 1)[0].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 0]
    for rank, part in enumerate(parts):
        assert part.targets.tolist() == [100 + at for at in part.index.tolist()]
        before = [tokens[rank * 12 // cp + at] for at in part.predictors.tolist()]
        assert before == [target - 1 for target in part.targets.tolist()]
