"""Two ranks, one or both killed at every failpoint, or one stopped: the next attempt gives results bit-identical to an undisturbed job.

If LONGHAUL_KILLS_RESULT names a file, each case appends a line to it; a failed case writes what it had found by then.
`npm run test:trainer -- --full --out FILE` sets it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from job_files import JobFiles, make_config, make_draft, make_job
from same_end import expect_same_end
from strikes import end_running, finish, run, run_ranks, start_ranks, wait_until_stopped

from longhaul_trainer.directory import open_sealed

TWO = {"ranks_per_node": 2, "cp": 1}
KINDS = ("prox", "canary-old", "inner", "checkpoint", "policy")
CUTS = ("staged", "sealed", "renamed", "committed")
# Without a rank number, every rank that passes the failpoint dies: both ranks, or only the first one in commits.
OFTEN = ["after-update:2/1", "inner.renamed"]
SELDOM = [
    "started",
    "loaded/1",
    "prox/0",
    *(f"{place}{rank}" for place in ("before-backward:3", "after-backward:3") for rank in ("", "/0", "/1")),
    *(f"after-update:{count}{rank}" for count in (1, 3, 4) for rank in ("", "/0", "/1")),
    *(f"{kind}.{cut}" for kind in KINDS for cut in CUTS if f"{kind}.{cut}" not in OFTEN),
]
CASES = [*OFTEN, *(pytest.param(case, marks=pytest.mark.slow) for case in SELDOM)]
# (failpoint, stopped rank).
STOPS = [
    ("before-backward:3/1", 1),
    *(
        pytest.param(place, rank, marks=pytest.mark.slow)
        for place, rank in (
            ("started/1", 1),
            ("loaded/0", 0),
            ("prox/0", 0),
            ("prox/1", 1),
            ("after-backward:3/0", 0),
            ("after-update:2/0", 0),
            ("after-update:2/1", 1),
            ("inner.sealed", 0),
            ("checkpoint.renamed", 0),
            ("policy.staged", 0),
        )
    ),
]


@pytest.fixture(autouse=True)
def _no_rank_outlives_its_test() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    end_running()


def two_rank_job(root: Path, policy: Path) -> JobFiles:
    return make_job(root, policy, make_draft(policy, stage="dapo"), make_config("dapo"), execution=TWO)


def outputs(job: JobFiles) -> tuple[str, str]:
    return open_sealed(job.checkpoint).sha256, open_sealed(job.policy).sha256


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> JobFiles:
    job = two_rank_job(tmp_path_factory.mktemp("undisturbed"), policy)
    assert run_ranks(job.write(), world=2) == [0, 0]
    return job


@pytest.mark.parametrize("case", CASES)
def test_killed_ranks_lose_at_most_one_step_and_no_bit(
    tmp_path: Path, policy: Path, undisturbed: JobFiles, case: str
) -> None:
    job = two_rank_job(tmp_path, policy)
    with recorded(f"KILL@{case}") as entry:
        codes = entry["codes"] = run_ranks(job.write(), world=2, strike=f"KILL@{case}")
        assert -signal.SIGKILL in codes
        # A surviving rank reports a lost rank, or had already finished.
        assert all(code in (-signal.SIGKILL, 0, 69) for code in codes), codes
        began = time.monotonic()
        assert run_ranks(job.write(fence=2, attempt=2), world=2) == [0, 0]
        compare(entry, job, undisturbed, seconds=time.monotonic() - began)
        steps = entry["steps"]
        assert sorted({*steps[0], *steps[1]}) == [1, 2, 3, 4]
        assert len(steps[0]) + len(steps[1]) <= 5
        assert entry["identical"]


@pytest.mark.parametrize(("place", "rank"), STOPS)
def test_a_stalled_rank_is_detected_and_named_and_cannot_commit_later(
    tmp_path: Path, policy: Path, undisturbed: JobFiles, place: str, rank: int
) -> None:
    """After SIGSTOP its sockets stay open, so only a timeout ends the other rank's wait. It continues after another attempt has finished."""
    job = two_rank_job(tmp_path, policy)
    # Ranks wait for each other for 80 % of it.
    job.spec["execution"]["stall_s"] = 25
    with recorded(f"STOP@{place}") as entry:
        ranks = start_ranks(job.write(), world=2, strike=f"STOP@{place}")
        wait_until_stopped(ranks[rank])
        codes = entry["codes"] = [0, 0]
        codes[1 - rank] = finish(ranks[1 - rank])
        assert codes[1 - rank] == 69
        report = job.exit_report()
        assert (report["code"], report["class"]) == (69, "unavailable")
        assert f"gone or standing still: rank {rank} (last seen in phase " in report["message"]
        job.spec["execution"]["stall_s"] = 120
        began = time.monotonic()
        assert run_ranks(job.write(fence=2, attempt=2), world=2) == [0, 0]
        seconds = time.monotonic() - began
        os.kill(ranks[rank], signal.SIGCONT)
        codes[rank] = finish(ranks[rank])
        assert codes[rank] == 76
        compare(entry, job, undisturbed, seconds=seconds)
        assert sorted({*entry["steps"][0], *entry["steps"][1]}) == [1, 2, 3, 4]
        assert entry["identical"]


@contextlib.contextmanager
def recorded(strike: str) -> Iterator[dict[str, Any]]:
    """Yields an entry to fill in and appends it to the file, whether the block passes or fails. `identical` stays null if nothing was
    compared; `failed`: the first 300 characters of the block's error."""
    entry: dict[str, Any] = {"strike": strike, "codes": None, "steps": None, "identical": None, "failed": None}
    try:
        yield entry
    except BaseException as error:
        entry["failed"] = f"{type(error).__name__}: {error}"[:300]
        raise
    finally:
        path = os.environ.get("LONGHAUL_KILLS_RESULT")
        if path is not None:
            with Path(path).open("a") as file:
                file.write(json.dumps(entry) + "\n")


def compare(entry: dict[str, Any], job: JobFiles, undisturbed: JobFiles, *, seconds: float) -> None:
    """Fills in the entry before any assertion, so that failures are recorded with their findings."""
    entry["steps"] = [[e["opt_step"] for e in job.events(fence) if e["event"] == "opt_step"] for fence in (1, 2)]
    entry["identical"] = outputs(job) == outputs(undisturbed)
    entry["second_attempt_s"] = round(seconds, 2)
    recovered = [event for event in job.events(2) if event["event"] == "recovered"]
    entry["recovery"] = [{name: event[name] for name in event if name.endswith("_s")} for event in recovered]


def test_a_case_that_fails_is_recorded_with_what_it_had_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "strikes.jsonl"
    monkeypatch.setenv("LONGHAUL_KILLS_RESULT", str(path))

    def fail() -> None:
        with recorded("KILL@nowhere") as entry:
            entry |= {"codes": [-9, 0], "identical": False}
            raise AssertionError("other bytes")

    with pytest.raises(AssertionError):
        fail()
    with recorded("KILL@somewhere") as entry:
        entry["identical"] = True
    failed, passed = (json.loads(line) for line in path.read_text().splitlines())
    assert failed == {
        "strike": "KILL@nowhere",
        "codes": [-9, 0],
        "steps": None,
        "identical": False,
        "failed": "AssertionError: other bytes",
    }
    assert (passed["identical"], passed["failed"]) == (True, None)


def test_term_to_one_rank_stops_all_of_them(tmp_path: Path, policy: Path, undisturbed: JobFiles) -> None:
    job = two_rank_job(tmp_path, policy)
    assert run_ranks(job.write(), world=2, strike="TERM@before-backward:3/1") == [75, 75]
    assert job.exit_report()["code"] == 75
    assert run_ranks(job.write(fence=2), world=2) == [0, 0]
    assert outputs(job) == outputs(undisturbed)


def test_another_layout_resumes_within_rounding_and_reports_it(
    tmp_path: Path, policy: Path, undisturbed: JobFiles
) -> None:
    job = two_rank_job(tmp_path, policy)
    assert -signal.SIGKILL in run_ranks(job.write(), world=2, strike="KILL@after-update:3")
    job.spec["execution"]["ranks_per_node"] = 1
    assert run(job.write(fence=2)) == 0
    (resumed,) = [event for event in job.events(2) if event["event"] == "resumed"]
    assert resumed["opt_step"] == 2
    assert (resumed["relayout"]["from"]["ranks"], resumed["relayout"]["to"]["ranks"]) == (2, 1)
    expect_same_end(job, undisturbed, policy)
