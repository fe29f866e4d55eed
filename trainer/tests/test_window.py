"""Log-probabilities beyond the native window, against which a server of a policy with a rope is checked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from job_files import make_config, make_draft, make_job, make_window_job, score_rows
from safetensors.torch import load_file
from test_rank_jobs import torchrun
from tiny_policy import write_tiny_policy

from longhaul_trainer.directory import open_sealed
from longhaul_trainer.rope import Yarn
from longhaul_trainer.step.command import step

YARN = Yarn(factor=4.0, original_max=512)
PLACES = list(range(512, 768))


@pytest.fixture(scope="module")
def stretched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policies") / "stretched"
    write_tiny_policy(path, rope=YARN)
    return path


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, stretched: Path) -> dict[str, torch.Tensor]:
    """By transformers' own forward pass: of the policy, and of the same weights in a directory that states no rope."""
    job = make_window_job(tmp_path_factory.mktemp("row"), stretched)
    assert step(job.write(), dry_run=False) == 0
    ids = load_file(job.root / "window" / "window.safetensors")["input_ids"].tolist()
    plain = tmp_path_factory.mktemp("policies") / "plain"
    write_tiny_policy(plain)
    stated, ignored = (torch.tensor(score_rows(path, [ids])[0])[PLACES] for path in (stretched, plain))
    return {"new_logprobs": stated, "old_logprobs": ignored}


def assert_expected(window: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert window["position_index"].tolist() == PLACES
    assert len(window["input_ids"]) == 768
    for name, values in expected.items():
        assert torch.allclose(window[name].double(), values.double(), atol=1e-4), name


def test_a_policy_gets_log_probabilities_with_and_without_its_rope(
    tmp_path: Path, stretched: Path, expected: dict[str, torch.Tensor]
) -> None:
    job = make_window_job(tmp_path, stretched)
    assert step(job.write(), dry_run=False) == 0
    assert_expected(load_file(tmp_path / "window" / "window.safetensors"), expected)
    # Both differ clearly; otherwise a server that ignores the rope could not be detected.
    assert float((expected["new_logprobs"] - expected["old_logprobs"]).abs().median()) > 1e-2
    assert open_sealed(tmp_path / "window").manifest["key"] == job.spec["key"]
    assert step(job.write(fence=2), dry_run=False) == 0
    assert job.exit_report(2)["outcome"] == "found"


def test_two_ranks_that_share_a_row_compute_the_same(
    tmp_path: Path, stretched: Path, expected: dict[str, torch.Tensor]
) -> None:
    job = make_window_job(tmp_path, stretched, execution={"ranks_per_node": 2, "cp": 2})
    assert torchrun(job) == 0
    assert_expected(load_file(tmp_path / "window" / "window.safetensors"), expected)


def test_two_data_parallel_ranks_with_one_row_compute_the_same(
    tmp_path: Path, stretched: Path, expected: dict[str, torch.Tensor]
) -> None:
    job = make_window_job(tmp_path, stretched, execution={"ranks_per_node": 2})
    assert torchrun(job) == 0
    assert_expected(load_file(tmp_path / "window" / "window.safetensors"), expected)


def test_an_export_holds_window_log_probabilities_of_the_trained_weights(tmp_path: Path, stretched: Path) -> None:
    job = make_job(tmp_path / "job", stretched, make_draft(stretched, stage="rft"), make_config("rft", epochs=1))
    assert step(job.write(), dry_run=False) == 0
    window = load_file(job.policy / "window.safetensors")
    scored = torch.tensor(score_rows(job.policy, [window["input_ids"].tolist()])[0])[PLACES]
    assert torch.allclose(window["new_logprobs"].double(), scored.double(), atol=1e-4)


def test_an_export_of_a_policy_without_a_rope_has_no_window(tmp_path: Path, policy: Path) -> None:
    job = make_job(tmp_path / "job", policy, make_draft(policy, stage="rft"), make_config("rft", epochs=1))
    assert step(job.write(), dry_run=False) == 0
    assert not (job.policy / "window.safetensors").exists()


def test_a_policy_without_a_rope_and_a_torn_one_are_refused(tmp_path: Path, policy: Path) -> None:
    job = make_window_job(tmp_path / "plain", policy)
    assert step(job.write(), dry_run=False) == 64
    assert "states none" in job.exit_report()["message"]
    torn = tmp_path / "torn"
    write_tiny_policy(torn, rope=YARN)
    job = make_window_job(tmp_path / "job", torn)
    (torn / "model.safetensors").write_bytes(b"x")
    assert step(job.write(), dry_run=False) == 66
