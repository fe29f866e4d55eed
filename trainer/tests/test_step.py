"""Complete jobs in this process: results and idempotence. test_kills.py kills them at every failpoint."""

from __future__ import annotations

import hashlib
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from job_files import JobFiles, make_config, make_draft, make_job, score_rows
from safetensors.numpy import load_file

from longhaul_trainer.directory import open_sealed, seal
from longhaul_trainer.step import job as job_module
from longhaul_trainer.step import training
from longhaul_trainer.step.command import step


def weights(job: JobFiles) -> bytes:
    return (job.checkpoint / "state.safetensors").read_bytes()


def metrics(job: JobFiles) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job.checkpoint / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> JobFiles:
    """An undisturbed DAPO job of two mini-batches and two epochs."""
    job = make_job(tmp_path_factory.mktemp("finished"), policy, make_draft(policy, stage="dapo"), make_config("dapo"))
    assert step(job.write(), dry_run=False) == 0
    return job


def test_committed_job_leaves_sealed_outputs_and_a_report(finished: JobFiles, policy: Path) -> None:
    report = finished.exit_report()
    checkpoint, exported = open_sealed(finished.checkpoint), open_sealed(finished.policy)
    assert report["outcome"] == "committed"
    assert report["checkpoint"]["manifest_sha256"] == checkpoint.sha256
    assert report["policy"]["manifest_sha256"] == exported.sha256
    assert report["global_step"] == 4
    assert exported.manifest["policy_version"] == finished.spec["output"]["policy_version"]
    assert (finished.policy / "tokenizer.json").read_bytes() == (policy / "tokenizer.json").read_bytes()
    assert not (finished.job_dir / "inner").exists()
    assert [event["event"] for event in finished.events()].count("opt_step") == 4


def test_manifest_counts_the_updates_and_names_the_resulting_state(
    tmp_path: Path, policy: Path, finished: JobFiles
) -> None:
    """The hash covers weights and moments only, so that jobs of other runs with other keys can be compared."""
    found = open_sealed(finished.checkpoint).manifest
    assert (found["global_step"], found["optimizer_updates"]) == (4, 4)
    total = hashlib.sha256()
    state = load_file(finished.checkpoint / "state.safetensors")
    assert "rng.cpu" in state
    for name in sorted(name for name in state if name != "rng.cpu"):
        total.update(f"{name} torch.float32 {list(state[name].shape)}\n".encode() + state[name].tobytes())
    assert found["state_sha256"] == total.hexdigest()
    draft = make_draft(policy, stage="dapo")
    draft.manifest["run_id"] = "another"
    again = make_job(tmp_path, policy, draft, make_config("dapo"))
    assert step(again.write(), dry_run=False) == 0
    other = open_sealed(again.checkpoint).manifest
    assert other["key"] != found["key"]
    assert other["state_sha256"] == found["state_sha256"]


def test_an_update_that_is_applied_twice_ends_the_job(tmp_path: Path, policy: Path) -> None:
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft"), make_config("rft"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        real = torch.optim.AdamW.step
        calls = []

        def once_too_often(self: Any) -> None:
            calls.append(real(self))
            if len(calls) == 2:
                real(self)

        monkeypatch.setattr(torch.optim.AdamW, "step", once_too_often)
        assert step(job.write(), dry_run=False) == 70
    assert job.exit_report()["message"] == "Expected 4 optimizer updates at the end, found 5"
    assert not job.checkpoint.exists()


def test_first_step_starts_from_ratio_one_and_later_ones_move(finished: JobFiles) -> None:
    first, *later = metrics(finished)
    assert first["ratio_max"] == pytest.approx(1.0, abs=1e-6)
    assert first["abs_dlogp_max"] < 1e-5
    assert max(entry["ratio_max"] for entry in later) > 1.001


def test_same_key_twice_trains_once(finished: JobFiles) -> None:
    before = weights(finished)
    assert step(finished.write(fence=2), dry_run=False) == 0
    assert finished.exit_report(2)["outcome"] == "found"
    assert finished.exit_report(2)["policy"] == finished.exit_report(1)["policy"]
    assert weights(finished) == before
    assert "opt_step" not in [event["event"] for event in finished.events(2)]


def test_export_contains_the_trained_weights_and_their_canary(finished: JobFiles, policy: Path) -> None:
    canary = load_file(finished.policy / "canary.safetensors")
    offsets, at = canary["row_offsets"], canary["position_index"] + canary["row_offsets"][canary["position_row"]]
    rows = [canary["input_ids"][a:b].tolist() for a, b in pairwise(offsets)]
    for directory, name in ((policy, "old_logprobs"), (finished.policy, "new_logprobs")):
        scores = np.concatenate(score_rows(directory, rows))[at]
        assert np.abs(scores - canary[name]).max() < 1e-5
    assert len(at) == 32
    assert np.abs(canary["new_logprobs"] - canary["old_logprobs"]).min() > 1e-4


def test_higher_fence_stops_the_older_attempt(tmp_path: Path, policy: Path) -> None:
    job = make_job(tmp_path, policy, make_draft(policy, stage="dapo"), make_config("dapo"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        real = job_module.Job._save_inner

        def supersede(self: Any, *arguments: Any) -> None:
            real(self, *arguments)
            (job.job_dir / "leases" / "5.json").write_text("{}")

        monkeypatch.setattr(job_module.Job, "_save_inner", supersede)
        assert step(job.write(), dry_run=False) == 76
    assert not job.checkpoint.exists()
    assert step(job.write(fence=4), dry_run=False) == 76
    assert step(job.write(fence=6), dry_run=False) == 0


def test_an_attempt_that_begins_late_leaves_the_job_to_the_newer_claim(tmp_path: Path, policy: Path) -> None:
    """Its launcher was delayed between claim and launch. The newer attempt has claimed a fence but has not started."""
    job = make_job(tmp_path, policy, make_draft(policy, stage="dapo"), make_config("dapo"))
    job.job_dir.mkdir(parents=True, exist_ok=True)
    (job.job_dir / "spec.3.json").write_text("{}")
    assert step(job.write(fence=2), dry_run=False) == 76
    assert not (job.job_dir / "leases" / "2.json").exists()
    assert "claim to 3" in job.exit_report(fence=2)["message"]
    # Without the newer claim the attempt runs.
    (job.job_dir / "spec.3.json").unlink()
    assert step(job.write(fence=2), dry_run=False) == 0


def test_output_of_another_job_is_never_overwritten(tmp_path: Path, policy: Path, finished: JobFiles) -> None:
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft"), make_config("rft"))
    job.spec["output"]["checkpoint_uri"] = finished.spec["output"]["checkpoint_uri"]
    before = weights(finished)
    assert step(job.write(), dry_run=False) == 73
    assert weights(finished) == before


@pytest.mark.parametrize("stage", ["rft", "dapo"])
def test_micro_batch_size_changes_neither_loss_nor_gradient(tmp_path: Path, policy: Path, stage: str) -> None:
    found = []
    for max_tokens in (1, 128, 100_000):
        execution = {"max_tokens_per_micro": max_tokens}
        config = make_config(stage, epochs=1)
        job = make_job(tmp_path / str(max_tokens), policy, make_draft(policy, stage=stage), config, execution=execution)
        assert step(job.write(), dry_run=False) == 0
        found.append(metrics(job))
    for other in found[1:]:
        for left, right in zip(found[0], other, strict=True):
            assert left["n_tokens"] == right["n_tokens"]
            assert left["loss"] == pytest.approx(right["loss"], abs=2e-6)
            assert left["grad_norm"] == pytest.approx(right["grad_norm"], rel=2e-4)


def test_rft_loss_of_the_first_step_equals_the_reference(tmp_path: Path, policy: Path) -> None:
    draft = make_draft(policy, stage="rft")
    part = draft.manifest["minibatches"][0]
    span = slice(0, int(draft.tensors["row_offsets"][part["rows"]]))
    expected = -float(draft.tensors["behaviour_logprobs"][span].astype(np.float64).sum()) / part["loss_tokens"]
    job = make_job(tmp_path, policy, draft, make_config("rft"))
    assert step(job.write(), dry_run=False) == 0
    assert metrics(job)[0]["loss"] == pytest.approx(expected, abs=1e-5)
    assert metrics(job)[-1]["loss"] < metrics(job)[0]["loss"]


def test_next_job_continues_the_optimizer_and_the_step_count(tmp_path: Path, policy: Path, finished: JobFiles) -> None:
    draft = make_draft(finished.policy, stage="dapo", seed=3)
    version = finished.spec["output"]["policy_version"]
    sealed = open_sealed(finished.policy)
    draft.manifest["policies"] = [{"version": version, "manifest_sha256": sealed.sha256}]
    config = make_config("dapo", optimizer_init="carry")
    job = make_job(tmp_path, finished.checkpoint, draft, config, kind="checkpoint", global_step=4)
    assert step(job.write(), dry_run=False) == 0
    state = json.loads((job.checkpoint / "trainer_state.json").read_text())
    assert (state["global_step"], state["optimizer_updates"]) == (8, 8)
    # A policy of another run with the same number is not the input's policy.
    draft.manifest["policies"] = [{"version": f"{version[:8]}00000000", "manifest_sha256": "0" * 64}]
    stale = make_job(tmp_path / "stale", finished.checkpoint, draft, config, kind="checkpoint", global_step=4)
    assert step(stale.write(), dry_run=False) == 65


def test_the_first_update_begins_with_the_moments_of_the_input_where_they_are_carried(
    tmp_path: Path, policy: Path, finished: JobFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, torch.Tensor] = {}

    def look(self: Any, state: Any) -> Any:
        for name, parameter in self.scorer.model.named_parameters():
            for slot, value in self.optimizer.state.get(parameter, {}).items():
                seen[f"{slot}.{name}"] = value.clone()
        raise KeyboardInterrupt

    monkeypatch.setattr(training.Trainer, "run_step", look)
    draft = make_draft(finished.policy, stage="dapo", seed=3)
    draft.manifest["policies"] = [
        {
            "version": finished.spec["output"]["policy_version"],
            "manifest_sha256": open_sealed(finished.policy).sha256,
        }
    ]
    stored = load_file(finished.checkpoint / "state.safetensors")
    moments = {name: value for name, value in stored.items() if name.startswith(("exp_avg.", "exp_avg_sq."))}
    assert any(np.abs(value).max() > 0 for value in moments.values())
    for init, expected in (("carry", moments), ("fresh", {})):
        seen.clear()
        config = make_config("dapo", optimizer_init=init)
        job = make_job(tmp_path / init, finished.checkpoint, draft, config, kind="checkpoint", global_step=4)
        with pytest.raises(KeyboardInterrupt):
            step(job.write(), dry_run=False)
        steps = [int(value) for name, value in seen.items() if name.startswith("step.")]
        assert steps == [4] * (len(expected) // 2)
        assert {name: value.tolist() for name, value in seen.items() if not name.startswith("step.")} == {
            name: value.tolist() for name, value in expected.items()
        }


def test_proximal_values_of_another_processor_are_computed_again_until_an_update_is_stored(
    tmp_path: Path, policy: Path
) -> None:
    """Its kernels round differently by a few units in the last place. With its values the first ratio would never be 1, and each attempt
    would end as diverged."""
    jobs = [
        make_job(tmp_path / name, policy, make_draft(policy, stage="dapo"), make_config("dapo"))
        for name in ("whole", "cut")
    ]
    whole, job = jobs
    assert step(whole.write(), dry_run=False) == 0
    real = job_module.write_prox
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(job_module, "write_prox", lambda path, prox: real(path, prox + np.float32(3e-6)))
        interrupt_after_update(monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            step(job.write(), dry_run=False)
    assert step(job.write(fence=2), dry_run=False) == 0
    for name in ("state.safetensors", "metrics.jsonl"):
        assert (job.checkpoint / name).read_bytes() == (whole.checkpoint / name).read_bytes()


def interrupt_after_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts when the proximal log-probabilities are stored, but no update is."""

    def interrupt(place: str) -> None:
        if place == "after-update":
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "hit", interrupt)


def test_prox_is_computed_again_until_an_update_is_stored(
    tmp_path: Path, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an out-of-memory exit the next attempt has a smaller limit. With the stored values its first ratio would never be 1."""
    job = make_job(tmp_path, policy, make_draft(policy, stage="dapo"), make_config("dapo"))
    real = training.Trainer.run_step

    def attempt(fence: int, limit: int, *, until: int) -> int:
        """Number of prox passes of an attempt that is interrupted after storing `until` updates, during the next one."""

        def cut(self: Any, state: Any) -> Any:
            if state.done == until:
                interrupt_after_update(broken)
            return real(self, state)

        with monkeypatch.context() as broken:
            broken.setattr(training.Trainer, "run_step", cut)
            with pytest.raises(KeyboardInterrupt):
                step(
                    job.write(fence=fence, execution={**job.spec["execution"], "max_tokens_per_micro": limit}),
                    dry_run=False,
                )
        return [event["event"] for event in job.events(fence)].count("prox")

    assert attempt(1, 256, until=0) > 0
    assert attempt(2, 256, until=0) > 0
    assert attempt(3, 64, until=0) > 0
    assert open_sealed(job.job_dir / "prox").manifest["layout"]["max_tokens_per_micro"] == 64
    assert attempt(4, 64, until=2) > 0
    # Stored updates used these values, so they stay.
    assert attempt(5, 256, until=3) == 0
    assert open_sealed(job.job_dir / "prox").manifest["layout"]["max_tokens_per_micro"] == 64
    assert step(job.write(fence=6), dry_run=False) == 0


def test_non_finite_gradient_ends_the_job_before_the_weights_move(tmp_path: Path, policy: Path) -> None:
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft"), make_config("rft"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(training, "cross_entropy", lambda logp, *, n_tokens: logp.sum() * float("nan"))
        assert step(job.write(), dry_run=False) == 77
    assert any(event["event"] == "alarm" and event["action"] == "halt" for event in job.events())
    assert not (job.job_dir / "inner").exists()


def test_pad_id_in_the_config_removes_no_gradient(tmp_path: Path, policy: Path) -> None:
    """transformers zeroes the gradient of the pad token's embedding row, although a policy may sample the token."""
    results = []
    for pad in (None, 5):
        path = tmp_path / f"pad-{pad}"
        shutil.copytree(policy, path)
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**config, "pad_token_id": pad}))
        seal(path, kind="policy", facts={})
        draft = make_draft(path, stage="rft")
        draft.tensors["input_ids"][draft.tensors["loss_mask"] == 1] = 5
        job = make_job(tmp_path / f"job-{pad}", path, draft, make_config("rft"))
        assert step(job.write(), dry_run=False) == 0
        results.append((metrics(job), weights(job)))
    assert results[0] == results[1]


def test_bfloat16_export_scores_like_its_canary(tmp_path: Path, policy: Path) -> None:
    config = make_config("rft", export={"dtype": "bfloat16"}, epochs=1)
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft"), config)
    assert step(job.write(), dry_run=False) == 0
    canary = load_file(job.policy / "canary.safetensors")
    row, index = int(canary["position_row"][0]), int(canary["position_index"][0])
    ids = canary["input_ids"][canary["row_offsets"][row] : canary["row_offsets"][row + 1]].tolist()
    assert score_rows(job.policy, [ids])[0][index] == pytest.approx(float(canary["new_logprobs"][0]), abs=1e-5)
    assert json.loads((job.policy / "config.json").read_text())["rope_theta"] > 0
