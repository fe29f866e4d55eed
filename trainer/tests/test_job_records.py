"""Every record of a job, field by field, with stopped clocks: progress, reports, manifests, checkpoints and canary."""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from job_files import JobFiles, cut_minibatches, make_config, make_draft, make_job, make_window_job
from safetensors.numpy import load_file
from tiny_policy import write_tiny_policy

from longhaul_trainer import VERSION, directory
from longhaul_trainer.directory import mark_committed, open_sealed, seal, sha256_file
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.rope import Yarn
from longhaul_trainer.step import command, failpoints, lease, progress, training, window_job
from longhaul_trainer.step import job as job_module
from longhaul_trainer.step.command import step
from longhaul_trainer.step.state import Snapshot
from longhaul_trainer.weight_files import WeightFiles

TRACEPARENT = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
NOW = 1_700_000_000_123
# Every measured duration, exact and as rounded in records.
TICK, SECONDS = 0.12345, 0.123
LAYOUT = {"device": "cpu", "ranks": 1, "cp": 1, "deterministic": True, "max_tokens_per_micro": 150, "threads": 1}


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """All records have the same time; each reading of the monotonic clock is one TICK after the previous one."""
    for module in (command, job_module, lease, progress):
        monkeypatch.setattr(module, "now_ms", lambda: NOW)
    for module in (job_module, training):
        looks: list[None] = []

        def look(looks: list[None] = looks) -> float:
            looks.append(None)
            return TICK * len(looks)

        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=look))
    monkeypatch.setenv("LONGHAUL_LAUNCHER_HANDLE", "handle-7")
    monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
    monkeypatch.setattr(failpoints, "_passed", type(failpoints._passed)())


def metrics_of(job: JobFiles) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job.checkpoint / "metrics.jsonl").read_text().splitlines()]


def event(name: str, phase: str, fence: int = 1, **fields: Any) -> dict[str, Any]:
    return {"t": NOW, "fence": fence, "event": name, "phase": phase, **fields}


def failed_event(phase: str, code: int, kind: str, message: str) -> dict[str, Any]:
    return {**event("failed", phase, code=code, message=message), "class": kind}


def told(job: JobFiles, fence: int = 1) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events in order, and separately those of inner checkpoints, which a thread emits at any time."""
    events = job.events(fence)
    assert [entry.pop("seq") for entry in events] == list(range(1, len(events) + 1))
    inner = [entry for entry in events if entry["event"] == "checkpoint"]
    return [entry for entry in events if entry["event"] != "checkpoint"], inner


def micro(step: int, done: int, tokens: int, fence: int = 1) -> dict[str, Any]:
    return event("micro", "train", fence, done=done, tokens=tokens, opt_step=step)


def opt_step(metrics: dict[str, Any], *, done: int, total: int, fence: int = 1) -> dict[str, Any]:
    rate = round(metrics["n_tokens"] / TICK, 1)
    fields = {"opt_step": done, "total": total, "seconds": SECONDS, "tokens_per_s": rate}
    return event("opt_step", "train", fence, **metrics, **fields)


def commit_event(name: str, phase: str, kind: str, path: Path, fence: int = 1) -> dict[str, Any]:
    sealed = open_sealed(path)
    size = sum(entry["bytes"] for entry in sealed.manifest["files"])
    fields = {"kind": kind, "path": str(path), "bytes": size, "seconds": SECONDS, "manifest_sha256": sealed.sha256}
    return event(name, phase, fence, **fields)


def facts_of(job: JobFiles) -> dict[str, Any]:
    spec = job.spec
    return {
        "key": spec["key"],
        "job_id": spec["job_id"],
        "stage": spec["stage"],
        "iteration": 0,
        "policy_version": spec["output"]["policy_version"],
        "parents": {
            "input_manifest_sha256": spec["input"]["manifest_sha256"],
            "batch_manifest_sha256": spec["batch"]["manifest_sha256"],
            "config_sha256": spec["config"]["sha256"],
        },
        "layout": LAYOUT,
        "versions": {
            "longhaul_trainer": VERSION,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }


def files_below(path: Path) -> list[str]:
    return sorted(found.relative_to(path).as_posix() for found in path.rglob("*") if found.is_file())


def manifest_of(path: Path) -> dict[str, Any]:
    manifest = open_sealed(path).manifest
    listed = {entry["path"] for entry in manifest.pop("files")}
    assert listed == set(files_below(path)) - {"MANIFEST.json", "COMMITTED", "attempt.json"}
    return manifest


def attempt_of(job: JobFiles, fence: int = 1) -> dict[str, Any]:
    root = job.root
    paths = {"input": job.spec["input"]["uri"].removeprefix("file://"), "batch": str(root / "batch")}
    paths |= {"config": str(root / "config.json"), "job_dir": str(job.job_dir)}
    return {"attempt": 1, "fence": fence, "run": "test", "host": platform.node(), "paths": paths}


def small_job(root: Path, policy: Path, stage: str = "dapo", **changes: Any) -> JobFiles:
    """Two mini-batches of four rows, each in two micro-batches; one epoch, so two steps."""
    draft = make_draft(policy, stage=stage, groups=2, size=4, batch_size=4, longest=100)
    config = make_config(stage, **{"epochs": 1, "batch_size": 4, **changes})
    return make_job(root, policy, draft, config, execution={"max_tokens_per_micro": 150})


def micros_of(job: JobFiles) -> list[list[int]]:
    """Loss tokens of each micro-batch, by mini-batch, packed by hand: longest row first, each into the first micro-batch with room."""
    tensors = load_file(job.root / "batch" / "batch.safetensors")
    offsets, mask = tensors["row_offsets"], tensors["loss_mask"]
    rows = [(int(b - a), int(mask[a:b].sum())) for a, b in pairwise(offsets)]
    found = []
    for part in (rows[:4], rows[4:]):
        places: list[list[int]] = []
        for length, tokens in sorted(part, key=lambda row: -row[0]):
            place = next((place for place in places if place[0] + length <= 150), None)
            if place is None:
                places.append([length, tokens])
            else:
                place[0] += length
                place[1] += tokens
        found.append([tokens for _, tokens in places])
    return found


def test_dapo_job_reports_every_step_and_commits_the_same_figures(tmp_path: Path, policy: Path, still: None) -> None:
    job = small_job(tmp_path, policy)
    assert step(job.write(), dry_run=False) == 0
    first, second = metrics_of(job)
    parts = micros_of(job)
    weights = load_file(policy / "model.safetensors")
    assert len(parts[1]) > 1
    events, inner = told(job)
    loaded = events[1]
    assert loaded.pop("parameter_sum") == pytest.approx(
        sum(float(w.astype(np.float64).sum()) for w in weights.values())
    )
    assert events == [
        event("started", "start", job_id=job.spec["job_id"], key=job.spec["key"], attempt=1, layout=LAYOUT),
        event("loaded", "load", seconds=SECONDS, parameters=sum(w.size for w in weights.values())),
        # The first mini-batch needs no separate pass.
        *(event("prox", "prox", done=done) for done in range(1, len(parts[1]) + 1)),
        *(micro(1, done, tokens) for done, tokens in enumerate(parts[0], start=1)),
        opt_step(first, done=1, total=2),
        *(micro(2, done, tokens) for done, tokens in enumerate(parts[1], start=1)),
        opt_step(second, done=2, total=2),
        commit_event("committed", "commit", "checkpoint", job.checkpoint),
        commit_event("exported", "export", "policy", job.policy),
        event("done", "export", outcome="committed"),
    ]
    ((saved),) = inner
    assert (saved["kind"], saved["path"], saved["seconds"]) == ("inner", str(job.job_dir / "inner" / "1"), SECONDS)
    assert (first["global_step"], second["global_step"]) == (1, 2)
    outputs = {
        "checkpoint": {
            "uri": job.spec["output"]["checkpoint_uri"],
            "manifest_sha256": open_sealed(job.checkpoint).sha256,
        },
        "policy": {
            "uri": job.spec["output"]["policy_uri"],
            "manifest_sha256": open_sealed(job.policy).sha256,
            "version": job.spec["output"]["policy_version"],
        },
        "global_step": 2,
        "opt_steps": 2,
        "alarms": [],
    }
    report = {
        "schema": "longhaul.exit/1",
        "code": 0,
        "class": "ok",
        "message": "",
        "job_id": job.spec["job_id"],
        "key": job.spec["key"],
        "attempt": 1,
        "fence": 1,
        "t": NOW,
        "log_tail": [],
    }
    found = job.exit_report()
    # Of a process that no launcher of ranks has started: random.
    assert len(found.pop("launch")) == 16
    assert found == {**report, "outcome": "committed", **outputs}
    facts = facts_of(job)
    about = manifest_of(job.checkpoint)
    assert len(about.pop("state_sha256")) == 64
    common = {"schema": "longhaul.manifest/1", "global_step": 2, **facts}
    assert about == {"kind": "checkpoint", "optimizer_updates": 2, **common}
    sealed = open_sealed(job.checkpoint).sha256
    assert manifest_of(job.policy) == {"kind": "policy", "dtype": "float32", "checkpoint_sha256": sealed, **common}
    for kind, names in (("prox", {"prox.safetensors"}), ("canary-old", {"canary-old.safetensors"})):
        path = job.job_dir / kind
        assert manifest_of(path) == {"schema": "longhaul.manifest/1", "kind": kind, **facts}
        assert set(files_below(path)) == names | {"MANIFEST.json", "COMMITTED", "attempt.json"}
    for path in (job.checkpoint, job.policy, job.job_dir / "prox"):
        assert json.loads((path / "attempt.json").read_text()) == attempt_of(job)
    state = json.loads((job.checkpoint / "trainer_state.json").read_text())
    expected = {"schema": "longhaul.trainer-state/1", "global_step": 2, "done": 2, "optimizer_updates": 2, "alarms": []}
    assert state == {**expected, **facts}
    assert sorted(entry.name for entry in job.job_dir.iterdir()) == ["attempts", "canary-old", "leases", "prox"]
    owner = json.loads((job.job_dir / "leases" / "1.json").read_text())
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    assert owner == {
        "fence": 1,
        "host": platform.node(),
        "pid": os.getpid(),
        "pid_start": start,
        "boot_id": boot,
        "launcher": "handle-7",
        "traceparent": TRACEPARENT,
        "t": NOW,
    }
    # A second attempt finds the outputs and reports only that.
    assert step(job.write(fence=2, attempt=3), dry_run=False) == 0
    found = job.exit_report(2)
    assert len(found.pop("launch")) == 16
    assert found == {**report, "outcome": "found", **outputs, "attempt": 3, "fence": 2}
    again, _ = told(job, 2)
    assert again == [
        event("started", "start", 2, job_id=job.spec["job_id"], key=job.spec["key"], attempt=3, layout=LAYOUT),
        event("done", "start", 2, outcome="found"),
    ]


NAMES = {
    "dapo": (
        "global_step loss grad_norm n_tokens rows lr entropy k1 k3 abs_dlogp_max abs_dlogp_p99 is_mean is_std is_max ess chi2 "
        "clip_low clip_high dual_clip tis_capped masked_frac ratio_mean ratio_max dropped_nonfinite"
    ),
    "rft": "global_step loss grad_norm n_tokens rows lr entropy",
}


@pytest.mark.parametrize("stage", ["rft", "dapo"])
def test_resumed_job_reports_its_start_and_the_repeated_work(
    tmp_path: Path, policy: Path, still: None, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    whole = small_job(tmp_path / "whole", policy, stage, epochs=3)
    assert step(whole.write(), dry_run=False) == 0
    job = small_job(tmp_path / "cut", policy, stage, epochs=3)
    real = training.Trainer.run_step

    def run_and_break(self: Any, state: Any) -> Any:
        if state.done == 4:
            raise KeyboardInterrupt
        return real(self, state)

    with monkeypatch.context() as broken:
        broken.setattr(training.Trainer, "run_step", run_and_break)
        with pytest.raises(KeyboardInterrupt):
            step(job.write(), dry_run=False)
    # In a separate process the saver thread would die with the job. Here it may still be writing its checkpoint.
    for thread in threading.enumerate():
        if thread.name == "saver":
            thread.join(60)
            assert not thread.is_alive()
    # The job keeps the newest two. The test deletes the checkpoint that was being written at the interrupt, as if it were incomplete.
    names = {path.name for path in (job.job_dir / "inner").iterdir() if not path.name.startswith(".")}
    assert names == {"3", "4"}
    shutil.rmtree(job.job_dir / "inner" / "4")
    with (job.job_dir / "attempts" / "1" / "progress.jsonl").open("a") as file:
        file.write(json.dumps({"t": NOW - 4_500}) + "\n")
    assert step(job.write(fence=2), dry_run=False) == 0
    events, inner = told(job, 2)
    after_load = [entry for entry in events if entry["event"] not in ("micro", "prox", "started", "loaded")]
    metrics = metrics_of(job)
    assert [set(entry) for entry in metrics] == [set(NAMES[stage].split())] * 6
    assert [entry["rows"] for entry in metrics] == [4] * 6
    resumed, fourth, recovered, *later, committed, exported, done = after_load
    # The clock readings between include load and commits, so these two durations only have lower bounds.
    assert resumed.pop("seconds") > 0
    assert resumed == event("resumed", "load" if stage == "rft" else "prox", 2, opt_step=3, global_step=3)
    assert fourth == opt_step(metrics[3], done=4, total=6, fence=2)
    assert recovered.pop("since_start_s") > SECONDS
    assert recovered == event("recovered", "train", 2, opt_step=4, since_last_attempt_s=4.5)
    assert later == [opt_step(metrics[4], done=5, total=6, fence=2), opt_step(metrics[5], done=6, total=6, fence=2)]
    assert committed == commit_event("committed", "commit", "checkpoint", job.checkpoint, 2)
    assert exported == commit_event("exported", "export", "policy", job.policy, 2)
    assert done == event("done", "export", 2, outcome="committed")
    assert [Path(entry["path"]).name for entry in inner] == ["4", "5"]
    for name in ("checkpoint", "policy"):
        assert open_sealed(getattr(job, name)).sha256 == open_sealed(getattr(whole, name)).sha256
    assert not (job.job_dir / "inner").exists()


def test_inner_checkpoints_are_written_as_often_as_requested(
    tmp_path: Path, policy: Path, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = small_job(tmp_path, policy, "rft", epochs=4)
    job.spec["execution"]["inner_every"] = 3
    seen: list[list[str]] = []
    real = job_module.Job._save_final

    def look(self: Any, *arguments: Any) -> Any:
        seen.append(sorted(path.name for path in (job.job_dir / "inner").iterdir()))
        return real(self, *arguments)

    monkeypatch.setattr(job_module.Job, "_save_final", look)
    assert step(job.write(), dry_run=False) == 0
    # After steps 3 and 6 of eight, but not after the last one, which the final checkpoint saves.
    assert seen == [["3", "6"]]


@pytest.mark.parametrize(
    ("every", "seconds", "expected"), [(1, 2.5, ["3", "6"]), (2, 2.5, ["4"]), (1, 0, ["6", "7"]), (1, 100, [])]
)
def test_inner_checkpoints_keep_the_requested_steps_and_seconds_apart(
    tmp_path: Path,
    policy: Path,
    still: None,
    monkeypatch: pytest.MonkeyPatch,
    every: int,
    seconds: float,
    expected: list[str],
) -> None:
    """Eight steps of one second each; the job keeps the newest two inner checkpoints."""
    job = small_job(tmp_path, policy, "rft", epochs=4)
    job.spec["execution"] |= {"inner_every": every, "inner_every_s": seconds}
    now = [0.0]
    monkeypatch.setattr(job_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    run_step, save_final = training.Trainer.run_step, job_module.Job._save_final
    seen: list[list[str]] = []

    def pass_a_second(self: Any, *arguments: Any) -> Any:
        now[0] += 1
        return run_step(self, *arguments)

    def look(self: Any, *arguments: Any) -> Any:
        inner = job.job_dir / "inner"
        seen.append(sorted(path.name for path in inner.iterdir()) if inner.exists() else [])
        return save_final(self, *arguments)

    monkeypatch.setattr(training.Trainer, "run_step", pass_a_second)
    monkeypatch.setattr(job_module.Job, "_save_final", look)
    assert step(job.write(), dry_run=False) == 0
    assert seen == [expected]


def test_frozen_weights_are_written_only_at_the_end_and_a_resumed_job_has_them(
    tmp_path: Path, policy: Path, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, job = (small_job(tmp_path / name, policy, lora={"rank": 2, "alpha": 4.0}) for name in ("whole", "cut"))
    assert step(whole.write(), dry_run=False) == 0
    with monkeypatch.context() as struck:
        struck.setenv(failpoints.VARIABLE, "TERM@after-update:1")
        assert step(job.write(), dry_run=False) == 75
    weights = {name for name in load_file(job.job_dir / "inner" / "1" / "state.safetensors") if "weight." in name}
    assert weights
    assert all("lora_" in name for name in weights)
    assert step(job.write(fence=2), dry_run=False) == 0
    assert [e["opt_step"] for e in job.events(2) if e["event"] == "resumed"] == [1]
    ends = [load_file(one.checkpoint / "state.safetensors") for one in (whole, job)]
    assert {name.removeprefix("weight.") for name in ends[1] if "weight." in name} > set(
        load_file(policy / "model.safetensors")
    )
    assert all(np.array_equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_resumed_attempt_hashes_and_loads_each_byte_of_input_and_state_once(
    tmp_path: Path, policy: Path, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads of checkpoints during a restart, which dominate at 872 GB each: docs/training.md counts four."""
    job = small_job(tmp_path, policy, "rft", epochs=2)
    with monkeypatch.context() as struck:
        struck.setenv(failpoints.VARIABLE, "TERM@after-update:1")
        assert step(job.write(), dry_run=False) == 75
    files = [policy / "model.safetensors", job.job_dir / "inner" / "1" / "state.safetensors"]
    sizes = [sum(value.nbytes for name, value in load_file(path).items() if name != "rng.cpu") for path in files]
    hashed: list[Path] = []
    loaded = dict.fromkeys(files, 0)
    real_hash, real_read = directory.sha256_file, WeightFiles._read_rows

    def read(self: WeightFiles, name: str, rows: slice) -> torch.Tensor:
        found = real_read(self, name, rows)
        ((path, _),) = self.places[name]
        loaded[path] += found.nbytes
        return found

    monkeypatch.setattr(directory, "sha256_file", lambda path: (hashed.append(path), real_hash(path))[1])
    monkeypatch.setattr(WeightFiles, "_read_rows", read)
    assert step(job.write(fence=2), dry_run=False) == 0
    assert [hashed.count(path) for path in files] == [1, 1]
    assert list(loaded.values()) == sizes


def test_a_missing_export_is_made_later_even_without_the_job_folder(
    tmp_path: Path, policy: Path, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = small_job(tmp_path / "whole", policy)
    assert step(whole.write(), dry_run=False) == 0
    job = small_job(tmp_path / "cut", policy)

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no export today")

    with monkeypatch.context() as broken:
        broken.setattr(job_module, "write_policy", refuse)
        assert step(job.write(), dry_run=False) == 70
    report = job.exit_report()
    assert (report["class"], report["message"]) == ("internal", "RuntimeError: no export today")
    assert tail_of(report) == ["started", "loaded", "opt_step", "checkpoint", "opt_step", "committed", "failed"]
    assert told(job)[0][-1] == failed_event("export", 70, "internal", report["message"])
    assert not list(job.policy.parent.iterdir())
    shutil.rmtree(job.job_dir)
    assert step(job.write(fence=2), dry_run=False) == 0
    # The input is loaded again for the canary's old log-probabilities.
    assert [e["event"] for e in job.events(2)] == ["started", "loaded", "exported", "done"]
    assert job.exit_report(2)["outcome"] == "committed"
    assert job.exit_report(2)["opt_steps"] == 2
    for name in ("checkpoint", "policy"):
        assert open_sealed(getattr(job, name)).sha256 == open_sealed(getattr(whole, name)).sha256


def tail_of(report: dict[str, Any]) -> list[str]:
    """Names of the last events. Each entry is the start of a line of progress.jsonl, up to 300 characters."""
    assert all(len(line) <= 300 for line in report["log_tail"])
    assert max(len(line) for line in report["log_tail"]) == 300
    return [line.split('"event": "')[1].split('"')[0] for line in report["log_tail"]]


@pytest.mark.parametrize(
    ("strike", "saved", "phase"),
    [("TERM@after-update:3", "3", "train"), ("TERM@after-update:4", "4", "commit"), ("TERM@prox:1", None, "prox")],
)
def test_sigterm_saves_the_last_step_and_is_reported(
    tmp_path: Path,
    policy: Path,
    still: None,
    monkeypatch: pytest.MonkeyPatch,
    strike: str,
    saved: str | None,
    phase: str,
) -> None:
    job = small_job(tmp_path, policy, epochs=2)
    job.spec["execution"]["inner_every"] = 5
    with monkeypatch.context() as struck:
        struck.setenv(failpoints.VARIABLE, strike)
        assert step(job.write(), dry_run=False) == 75
    report = job.exit_report()
    assert (report["code"], report["class"]) == (75, "stopped")
    assert report["message"].startswith("Stopped on SIGTERM before the final commit [waited_s=0.")
    events, _ = told(job)
    assert events[-2:] == [
        event("sigterm", phase, message=report["message"]),
        failed_event(phase, 75, "stopped", report["message"]),
    ]
    inner = job.job_dir / "inner"
    assert (sorted(path.name for path in inner.iterdir()) if inner.exists() else []) == ([saved] if saved else [])
    assert step(job.write(fence=2), dry_run=False) == 0
    assert [e["opt_step"] for e in job.events(2) if e["event"] == "resumed"] == ([int(saved)] if saved else [])


def test_a_report_of_a_failed_attempt_has_its_last_lines(tmp_path: Path, policy: Path, still: None) -> None:
    job = small_job(tmp_path, policy)
    (tmp_path / "batch" / "batch.json").write_text("{}")
    assert step(job.write(), dry_run=False) == 65
    report = job.exit_report()
    assert report["message"].startswith(
        f"Expected batch.json to hash to {job.spec['batch']['manifest_sha256']}, found "
    )
    assert (report["code"], report["class"], report["attempt"], report["fence"]) == (65, "batch-refused", 1, 1)
    assert tail_of(report) == ["started", "failed"]


def test_canary_holds_the_positions_that_moved_most(tmp_path: Path, policy: Path, still: None) -> None:
    job = small_job(tmp_path, policy, "rft", canary={"positions": 20})
    assert step(job.write(), dry_run=False) == 0
    found = load_file(job.policy / "canary.safetensors")
    offsets = found["row_offsets"]
    # The first rows, until they hold at least 4 · 20 tokens.
    whole = load_file(job.root / "batch" / "batch.safetensors")
    rows = int(np.searchsorted(whole["row_offsets"], 80))
    assert offsets.tolist() == whole["row_offsets"][: rows + 1].tolist()
    assert found["input_ids"].tolist() == whole["input_ids"][: offsets[-1]].tolist()
    assert (len(found["position_row"]), found["position_index"].min() >= 1) == (20, True)
    at = offsets[found["position_row"]] + found["position_index"]
    assert (np.diff(at) > 0).all()
    assert (at < offsets[found["position_row"] + 1]).all()
    types = {name: str(value.dtype) for name, value in found.items()}
    assert types == {
        "row_offsets": "int64",
        "input_ids": "int32",
        "position_row": "int32",
        "position_index": "int32",
        "old_logprobs": "float32",
        "new_logprobs": "float32",
    }


def test_job_without_a_canary_or_with_the_samplers_own_ratio_makes_neither_file(
    tmp_path: Path, policy: Path, still: None
) -> None:
    config = make_config("dapo")["objective"]
    own = {**config, "prox": "behaviour", "correction": "none"}
    del own["tis_cap"]
    job = small_job(tmp_path, policy, canary="none", objective=own)
    assert step(job.write(), dry_run=False) == 0
    assert sorted(entry.name for entry in job.job_dir.iterdir()) == ["attempts", "leases"]
    assert not (job.policy / "canary.safetensors").exists()
    first = metrics_of(job)[0]
    assert (first["k1"], first["is_max"]) == (0.0, 1.0)


def test_state_holds_weights_moments_and_dice_and_inner_every_is_honoured(
    tmp_path: Path, policy: Path, still: None
) -> None:
    job = small_job(tmp_path, policy, "rft")
    assert step(job.write(), dry_run=False) == 0
    state = load_file(job.checkpoint / "state.safetensors")
    names = set(load_file(policy / "model.safetensors"))
    expected = {f"{kind}.{name}" for kind in ("weight", "exp_avg", "exp_avg_sq") for name in names}
    assert set(state) == {*expected, "rng.cpu"}
    assert all(value.dtype == np.float32 for name, value in state.items() if name != "rng.cpu")
    assert files_below(job.checkpoint / "hf") == files_below_hf(policy)
    config = json.loads((job.policy / "config.json").read_text())
    assert config["dtype"] == "float32"
    assert sha256_file(job.checkpoint / "hf" / "config.json") == sha256_file(policy / "config.json")


def files_below_hf(policy: Path) -> list[str]:
    return [name for name in files_below(policy) if name in ("config.json", "tokenizer.json")]


def test_a_ratio_that_is_not_one_at_the_first_step_halts_the_job(
    tmp_path: Path, policy: Path, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = small_job(tmp_path, policy)
    real = training.take_forward

    def shifted(prox: Any, *rest: Any, **named: Any) -> Any:
        tokens = real(prox, *rest, **named)
        prox[tokens] += np.float32(2e-6)
        return tokens

    monkeypatch.setattr(training, "take_forward", shifted)
    assert step(job.write(), dry_run=False) == 77
    alarm, failed = told(job)[0][-2:]
    gap = alarm.pop("value")
    assert 1e-6 < gap < 4e-6
    assert alarm == event("alarm", "train", metric="first_ratio", limit=1e-6, action="halt")
    message = f"Expected ratio 1 at the first step within 1e-06, got a gap of {gap:g}"
    assert failed == failed_event("train", 77, "diverged", message)


def test_a_loss_that_is_not_finite_halts_the_job_before_the_weights_move(
    tmp_path: Path, policy: Path, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = small_job(tmp_path, policy, "rft")
    monkeypatch.setattr(training, "cross_entropy", lambda logp, *, n_tokens: logp.sum() * math.nan)
    assert step(job.write(), dry_run=False) == 77
    alarm, failed = told(job)[0][-2:]
    assert alarm == event("alarm", "train", metric="loss", value="nan", limit="finite", action="halt")
    message = "Expected a finite loss at global step 1, got nan"
    assert failed == failed_event("train", 77, "diverged", message)


def test_an_alarm_is_reported_and_stored_and_does_not_end_the_job(tmp_path: Path, policy: Path, still: None) -> None:
    draft = make_draft(policy, stage="dapo", groups=2, size=4, batch_size=4, longest=100)
    logprobs, mask = draft.tensors["behaviour_logprobs"], draft.tensors["loss_mask"] == 1
    # The sampler's log-probabilities are a third of a nat below the trainer's: k1 = -1/3, k3 = e^(1/3) - 1/3 - 1 = 0.062.
    logprobs[mask] -= np.float32(1 / 3)
    config = make_config("dapo", epochs=1, batch_size=4)
    job = make_job(tmp_path, policy, draft, config, execution={"max_tokens_per_micro": 150})
    assert step(job.write(), dry_run=False) == 0
    alarms = [e for e in told(job)[0] if e["event"] == "alarm"]
    assert [(e["metric"], e["limit"], e["action"]) for e in alarms] == [("k1", "[-0.1, 0.1]", "pause")] * 2
    assert [e["value"] for e in alarms] == pytest.approx([-1 / 3] * 2, abs=1e-5)
    kept = [
        {"global_step": at + 1, "metric": "k1", "value": e["value"], "limit": e["limit"]} for at, e in enumerate(alarms)
    ]
    assert job.exit_report()["alarms"] == kept
    assert json.loads((job.checkpoint / "trainer_state.json").read_text())["alarms"] == kept
    # A later attempt reports the same alarms.
    assert step(job.write(fence=2), dry_run=False) == 0
    assert job.exit_report(2)["alarms"] == kept


@pytest.mark.parametrize(("lowest", "mean"), [(-9999.0, "inf"), (-400.0, pytest.approx(1e168, rel=1e3))])
def test_figures_that_overflow_are_reported_as_text_and_do_not_end_the_job(
    tmp_path: Path, policy: Path, still: None, lowest: float, mean: Any
) -> None:
    """vLLM writes the log-probability of an impossible token as -9999."""
    draft = make_draft(policy, stage="dapo", groups=2, size=4, batch_size=4, longest=100)
    draft.tensors["behaviour_logprobs"][np.flatnonzero(draft.tensors["loss_mask"])[0]] = lowest
    config = make_config("dapo", epochs=1, batch_size=4)
    job = make_job(tmp_path, policy, draft, config, execution={"max_tokens_per_micro": 150})
    assert step(job.write(), dry_run=False) == 0
    first, second = metrics_of(job)
    assert (first["is_mean"], first["ess"], first["chi2"]) == (mean, "nan", "inf")
    assert second["ess"] == pytest.approx(1.0, abs=1e-3)
    alarms = {alarm["metric"]: alarm["value"] for alarm in job.exit_report()["alarms"]}
    assert alarms.keys() == {"k1", "k3", "is_mean", "is_std", "ess", "chi2"}
    assert all(alarms[name] == first[name] for name in alarms)
    # The correction caps the ratio of this token, so the step itself is sound.
    assert math.isfinite(first["loss"])
    assert math.isfinite(first["grad_norm"])


def test_dropped_tokens_are_a_share_of_the_whole_batch(tmp_path: Path, policy: Path, still: None) -> None:
    """Their count is the batch's. Two of 300 are no alarm, although they would be more than 1 % of one mini-batch's tokens."""
    draft = make_draft(policy, stage="dapo")
    tensors, manifest = draft.tensors, draft.manifest
    owners = np.repeat(tensors["row_trajectory"], np.diff(tensors["row_offsets"]))
    for token in np.flatnonzero(tensors["loss_mask"])[:2]:
        for name in ("loss_mask", "behaviour_logprobs", "advantages"):
            tensors[name][token] = 0
        manifest["trajectories"][owners[token]]["masked_tokens"] += 1
    kept = int(tensors["loss_mask"].sum())
    manifest["counts"] |= {"loss_tokens": kept, "dropped_nonfinite": 2}
    manifest["minibatches"] = cut_minibatches(tensors, 8)
    job = make_job(tmp_path, policy, draft, make_config("dapo", epochs=1))
    assert step(job.write(), dry_run=False) == 0
    steps = metrics_of(job)
    assert all(2 / (2 + step["n_tokens"]) > 0.01 for step in steps)
    assert [step["dropped_nonfinite"] for step in steps] == [2 / (2 + kept)] * 2
    assert job.exit_report()["alarms"] == []


def test_window_job_reports_its_work_and_commits_it(
    tmp_path: Path, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[None] = []

    def look() -> float:
        looks.append(None)
        return TICK * len(looks)

    monkeypatch.setattr(window_job, "time", SimpleNamespace(monotonic=look))
    stretched = tmp_path / "stretched"
    write_tiny_policy(stretched, context=32, rope=Yarn(factor=2.0, original_max=32))
    job = make_window_job(tmp_path / "job", stretched)
    assert step(job.write(), dry_run=True) == 0
    assert job.exit_report()["outcome"] == "dry-run"
    assert step(job.write(fence=2, attempt=4), dry_run=False) == 0
    layout = job.events(2)[0]["layout"]
    assert told(job, 2)[0] == [
        event("started", "start", 2, job_id=job.spec["job_id"], key=job.spec["key"], attempt=4, layout=layout),
        event("loaded", "load", 2, seconds=SECONDS),
        event("done", "window", 2, outcome="committed"),
    ]
    uri = {"uri": job.spec["output"]["window_uri"]}
    path = Path(uri["uri"].removeprefix("file://"))
    assert {name: job.exit_report(2)[name] for name in ("window", "outcome")} == {"window": uri, "outcome": "committed"}
    facts = {"key": job.spec["key"], "job_id": job.spec["job_id"], "policy_sha256": open_sealed(stretched).sha256}
    assert manifest_of(path) == {"schema": "longhaul.manifest/1", "kind": "window", **facts}
    assert json.loads((path / "attempt.json").read_text()) == {"attempt": 4, "fence": 2}
    # Positions 32 to 62 of a row of 63 tokens, one below the rope's 64.
    found = load_file(path / "window.safetensors")
    assert (found["position_index"].tolist(), found["row_offsets"].tolist()) == (list(range(32, 63)), [0, 63])


def test_window_job_is_refused_for_a_policy_without_a_rope_or_with_other_bytes(
    tmp_path: Path, policy: Path, still: None
) -> None:
    plain = make_window_job(tmp_path / "plain", policy)
    assert step(plain.write(), dry_run=False) == 64
    assert plain.exit_report()["message"] == f"Expected a policy that states a rope, {policy} states none"
    flat = tmp_path / "flat"
    write_tiny_policy(flat, context=32, rope=Yarn(factor=1.0, original_max=32))
    job = make_window_job(tmp_path / "job", flat)
    assert step(job.write(), dry_run=False) == 64
    assert job.exit_report()["message"] == f"Expected a policy that states a rope, {flat} states yarn × 1 from 32"
    weights = flat / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert step(job.write(fence=2), dry_run=False) == 66
    assert job.exit_report(2)["message"].startswith(f"Expected {weights} to hash to ")
    weights.write_bytes(data)
    manifest = flat / "MANIFEST.json"
    manifest.write_text(manifest.read_text() + "\n")
    mark_committed(flat, sha256_file(manifest))
    assert step(job.write(fence=3), dry_run=False) == 66
    announced = job.spec["input"]["manifest_sha256"]
    assert job.exit_report(3)["message"].startswith(f"Expected {manifest} to hash to {announced}, found ")


def test_each_of_several_ranks_writes_its_shard_and_its_hash_beside_the_others(tmp_path: Path) -> None:
    """The view of rank 1 of 3; a fake gather supplies the results of the others."""
    others = {tmp_path / "job" / "shards" / "7" / "state-00000-of-00003.safetensors": "a" * 64}

    class Third(Ranks):
        def gather(self, value: Any) -> list[Any]:
            return [*others.items(), value]

    job = object.__new__(job_module.Job)
    job.ranks = Third(device=torch.device("cpu"), rank=1, world=3)
    job.spec = SimpleNamespace(job_dir=tmp_path / "job", fence=7)  # type: ignore[assignment]
    path = tmp_path / "job" / "shards" / "7" / "state-00001-of-00003.safetensors"
    for value in (1.0, 2.0):
        # A later state replaces an earlier one.
        snapshot = Snapshot(tensors={"weight.x": torch.full((3,), value)}, files={}, updates=1)
        job._write_shard(snapshot)
        assert load_file(path)["weight.x"].tolist() == [value] * 3
        assert job.shard_sha256 == sha256_file(path)
    assert job._written_shards() == {**others, path: sha256_file(path)}
    job.ranks = Ranks(device=torch.device("cpu"))
    assert job._written_shards() == {}


def test_ranks_divide_the_hashing_of_the_state_that_they_resume_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view of each of two ranks; the other one finds no damage."""
    path = tmp_path / "inner" / "3"
    path.mkdir(parents=True)
    for name in "abcd":
        (path / name).write_text(name)
    sealed = seal(path, kind="inner", facts={"key": "k"})

    class OfTwo(Ranks):
        def gather(self, value: Any) -> list[Any]:
            return [None, value]

        def first(self, work: Any) -> Any:
            return work()

    hashed: list[str] = []
    real = directory.sha256_file
    monkeypatch.setattr(directory, "sha256_file", lambda file: (hashed.append(file.name), real(file))[1])
    job = object.__new__(job_module.Job)
    job.spec = SimpleNamespace(key="k")  # type: ignore[assignment]
    shares = []
    for rank in (0, 1):
        hashed.clear()
        job.ranks = OfTwo(device=torch.device("cpu"), rank=rank, world=2)
        found = job._adopt_state(path)
        assert found is not None
        assert found.sha256 == sealed
        shares.append(sorted(hashed))
    assert shares == [["a", "c"], ["b", "d"]]
    (path / "d").write_text("x")
    assert job._adopt_state(path) is None
    assert [entry.name.startswith(".torn-3-") for entry in path.parent.iterdir()] == [True]
    assert job._adopt_state(path) is None
