"""Complete jobs of two ranks, started by torchrun as by every launcher."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from job_files import TRAINER, JobFiles, die_with_parent, make_config, make_draft, make_job
from same_end import expect_same_end

from longhaul_trainer.directory import open_sealed
from longhaul_trainer.step.command import step

TIMEOUT_S = 1200
TWO = {"ranks_per_node": 2, "cp": 2}


def torchrun(
    job: JobFiles, *, strike: str | None = None, variables: dict[str, str] | None = None, **changes: Any
) -> int:
    """Returns the code of exit.json if it exists, else torchrun's own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})}
    if strike is not None:
        environment["LONGHAUL_TRAINER_STRIKE"] = strike
    command = [sys.executable, "-m", "longhaul_trainer.parallel.launch", "--nproc-per-node=2"]
    command += ["-m", "longhaul_trainer", "step", "--spec", str(job.write(**changes))]
    process = subprocess.Popen(command, cwd=TRAINER, env=environment, preexec_fn=die_with_parent)
    try:
        process.wait(TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
    report = job.job_dir / "attempts" / str(changes.get("fence", 1)) / "exit.json"
    return json.loads(report.read_text())["code"] if report.exists() else process.returncode


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> JobFiles:
    job = make_job(tmp_path_factory.mktemp("alone"), policy, make_draft(policy, stage="dapo"), make_config("dapo"))
    assert step(job.write(), dry_run=False) == 0
    return job


def test_two_ranks_end_like_one_and_one_rank_resumes_from_their_shards(
    tmp_path: Path, policy: Path, alone: JobFiles
) -> None:
    job = make_job(tmp_path / "two", policy, make_draft(policy, stage="dapo"), make_config("dapo"), execution=TWO)
    assert torchrun(job) == 0
    assert sorted(path.name for path in job.checkpoint.glob("state-*")) == [
        "state-00000-of-00002.safetensors",
        "state-00001-of-00002.safetensors",
    ]
    expect_same_end(job, alone, policy)
    manifest = open_sealed(job.policy).manifest
    assert (manifest["layout"]["ranks"], manifest["layout"]["cp"]) == (2, 2)
    following = make_job(
        tmp_path / "next",
        job.checkpoint,
        make_draft(job.policy, stage="rft"),
        make_config("rft", optimizer_init="carry", epochs=1),
        kind="checkpoint",
        global_step=4,
    )
    assert step(following.write(), dry_run=False) == 0
    state = json.loads((following.checkpoint / "trainer_state.json").read_text())
    assert state["optimizer_updates"] == 6


@pytest.mark.slow
@pytest.mark.parametrize("strike", ["KILL@after-update:2/1", "KILL@inner.staged:2", "KILL@checkpoint.renamed"])
def test_two_ranks_killed_at_any_point_resume_to_the_same_bytes(tmp_path: Path, policy: Path, strike: str) -> None:
    undisturbed, killed = (
        make_job(tmp_path / name, policy, make_draft(policy, stage="dapo"), make_config("dapo"), execution=TWO)
        for name in ("undisturbed", "killed")
    )
    assert torchrun(undisturbed) == 0
    assert torchrun(killed, strike=strike) != 0
    assert torchrun(killed, fence=2) == 0
    for directory in ("checkpoint", "policy"):
        ours, theirs = getattr(killed, directory), getattr(undisturbed, directory)
        assert open_sealed(ours).sha256 == open_sealed(theirs).sha256


@pytest.mark.slow
def test_signal_to_one_rank_stops_both_with_75(tmp_path: Path, policy: Path) -> None:
    """If one rank left alone, the other would wait in a collective until its timeout."""
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft"), make_config("rft"), execution=TWO)
    assert torchrun(job, strike="TERM@before-backward:1/1") == 75
    assert torchrun(job, fence=2) == 0


def test_a_changed_input_that_one_rank_finds_is_refused_by_both(tmp_path: Path, policy: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(policy, changed)
    job = make_job(tmp_path, changed, make_draft(policy, stage="rft", groups=2), make_config("rft"), execution=TWO)
    weights = changed / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\xff")
    assert torchrun(job) == 66
    assert f"{weights} to hash to" in job.exit_report()["message"]


def test_job_of_two_ranks_started_as_one_process_is_refused(tmp_path: Path, policy: Path) -> None:
    draft = make_draft(policy, stage="rft", groups=2)
    job = make_job(tmp_path, policy, draft, make_config("rft"), execution={"ranks_per_node": 2})
    assert step(job.write(), dry_run=False) == 64
    assert "the launcher started 1" in job.exit_report()["message"]
    assert step(job.write(fence=2), dry_run=True) == 0
