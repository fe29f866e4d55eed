"""Jobs as real processes: killed, stopped by SIGTERM, and started twice at once."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from job_files import JobFiles, launch, make_config, make_draft, make_job

TIMEOUT_S = 1200


def wait_for(job: JobFiles, process: subprocess.Popen[str], event: str, count: int, fence: int = 1) -> None:
    path = job.job_dir / "attempts" / str(fence) / "progress.jsonl"
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines() if path.exists() else []
        if sum(f'"event": "{event}"' in line for line in lines) >= count:
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    pytest.fail(f"No {event} within {TIMEOUT_S} s")


def long_job(root: Path, policy: Path) -> JobFiles:
    return make_job(root, policy, make_draft(policy, stage="dapo", longest=200), make_config("dapo", epochs=4))


def test_killed_job_resumes_to_byte_identical_weights(tmp_path: Path, policy: Path) -> None:
    whole, killed = long_job(tmp_path / "whole", policy), long_job(tmp_path / "killed", policy)
    first = launch(killed.write())
    wait_for(killed, first, "opt_step", 3)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert not killed.checkpoint.exists()
    second, undisturbed = launch(killed.write(fence=2)), launch(whole.write())
    for process in (second, undisturbed):
        _, errors = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, errors
    steps = [event["opt_step"] for event in killed.events(2) if event["event"] == "opt_step"]
    assert 2 < steps[0] <= 8
    for name in ("state.safetensors", "MANIFEST.json"):
        assert (killed.checkpoint / name).read_bytes() == (whole.checkpoint / name).read_bytes()
    assert (killed.policy / "MANIFEST.json").read_bytes() == (whole.policy / "MANIFEST.json").read_bytes()


def test_sigterm_ends_a_job_with_75_and_the_next_attempt_continues(tmp_path: Path, policy: Path) -> None:
    job = long_job(tmp_path, policy)
    process = launch(job.write())
    wait_for(job, process, "opt_step", 1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 75
    assert job.exit_report()["class"] == "stopped"
    # The same before the load: the flag takes effect at the first boundary.
    early = launch(job.write(fence=2))
    wait_for(job, early, "started", 1, fence=2)
    early.send_signal(signal.SIGTERM)
    early.communicate(timeout=TIMEOUT_S)
    assert early.returncode == 75


@pytest.mark.slow
def test_two_concurrent_attempts_commit_once(tmp_path: Path, policy: Path) -> None:
    """The older attempt sees a higher fence and exits. Whichever attempt commits, the output is the same."""
    job = long_job(tmp_path, policy)
    processes = [launch(job.write(fence=fence)) for fence in (1, 2)]
    for process in processes:
        process.communicate(timeout=TIMEOUT_S)
    codes = [process.returncode for process in processes]
    assert codes[1] == 0
    assert codes[0] in (0, 76)
    assert json.loads((job.checkpoint / "MANIFEST.json").read_text())["key"] == job.spec["key"]


def test_unreadable_spec_is_64(tmp_path: Path) -> None:
    process = launch(tmp_path / "absent.json")
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 64
    assert "absent.json" in errors
