"""Unit tests of the parts of a job: lease, stop, failpoints, progress, saver, commit, packing of rows, export of configs."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import os
import resource
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from longhaul_trainer import __main__ as entry
from longhaul_trainer.batch.load import Batch
from longhaul_trainer.directory import TornDirectory, open_sealed, seal, write_durably
from longhaul_trainer.failures import FENCED, OUTPUT_UNWRITABLE, STOPPED, JobError
from longhaul_trainer.parallel import ranks as ranks_module
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.parallel.shard import whole_tensors
from longhaul_trainer.step import canary, clock, commit, export, failpoints, lease, place, progress, prox, saver, stop
from longhaul_trainer.step.forward import gather_rows
from longhaul_trainer.step.training import Step

CPU = torch.device("cpu")


def test_clock_counts_whole_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    assert clock.now_ms() == 1_700_000_000_123


# Lease.


def refused(code: int, work: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(JobError) as caught:
        work(*arguments, **named)
    assert caught.value.code == code
    return caught.value.message


def owner_of(path: Path, **changes: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**lease._owner(3), **changes}))


def test_lease_belongs_to_the_highest_fence(tmp_path: Path) -> None:
    held = lease.Lease(tmp_path / "deep" / "job", 3)
    held.check()
    held.acquire()
    path = tmp_path / "deep" / "job" / "leases" / "3.json"
    assert json.loads(path.read_text())["fence"] == 3
    assert path.stat().st_mode & 0o777 == 0o644
    for name in ("2.json", "x.json", "9.txt"):
        (path.parent / name).write_text("{}")
    held.check()
    (path.parent / "4.json").write_text("{}")
    (path.parent / "11.json").write_text("{}")
    assert refused(FENCED, held.check) == "Fence 3 is superseded by 11"
    assert refused(FENCED, lease.Lease(tmp_path / "deep" / "job", 7).acquire) == "Fence 7 is superseded by 11"
    assert not (path.parent / "7.json").exists()


def test_same_fence_is_taken_over_only_from_a_dead_process(tmp_path: Path) -> None:
    path = tmp_path / "leases" / "3.json"
    mine = lease.Lease(tmp_path, 3)
    # A live process of this host and boot: the parent of this test.
    parent = os.getppid()
    living = {"pid": parent, "pid_start": lease._start_time(parent)}
    owner_of(path, **living)
    assert refused(FENCED, mine.acquire) == f"Fence 3 is held by a running process [{path}]"
    # A process of another host cannot be checked and counts as alive.
    owner_of(path, host="elsewhere", pid=1)
    assert refused(FENCED, mine.acquire) == f"Fence 3 is held by a running process [{path}]"
    dead = [
        {**living, "pid_start": "1"},
        {**living, "boot_id": "another"},
        {"pid": 2**22 + 1, "pid_start": "5"},
        {"pid": 2**22 + 1, "pid_start": None},
    ]
    for changes in dead:
        owner_of(path, **changes)
        mine.acquire()
        owner = json.loads(path.read_text())
        assert (owner["pid"], owner["fence"]) == (os.getpid(), 3)
    for text in ("", "[]", '"host"', json.dumps({"host": socket.gethostname(), "boot_id": lease._boot_id()})):
        path.write_text(text)
        mine.acquire()
        assert json.loads(path.read_text())["host"] == socket.gethostname()
    # The process's own lease, from before an exec.
    mine.acquire()


def test_a_process_has_a_start_time_and_a_dead_one_has_none() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    # Ended but not yet reaped.
    assert lease._start_time(child) is None
    os.waitpid(child, 0)
    assert lease._start_time(child) is None
    assert lease._start_time(os.getpid()) == Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]


# Place, stop, failpoints.


def test_the_world_size_of_the_launcher_decides_whether_a_rank_is_one_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert not place.is_one_of_many()
    for world, many in (("1", False), ("2", True)):
        monkeypatch.setenv("WORLD_SIZE", world)
        assert place.is_one_of_many() is many


@pytest.mark.parametrize(("agent", "platform", "calls"), [(True, "linux", 1), (False, "linux", 0), (True, "darwin", 0)])
def test_a_rank_of_torchrun_dies_with_it(
    monkeypatch: pytest.MonkeyPatch, agent: bool, platform: str, calls: int
) -> None:
    seen: list[tuple[Any, ...]] = []

    class Library:
        def __init__(self, name: object) -> None:
            assert name is None

        def prctl(self, *arguments: Any) -> None:
            seen.append(arguments)

    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.setattr(place.sys, "platform", platform)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    if agent:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    place.die_with_launcher()
    # PR_SET_PDEATHSIG is 1.
    assert seen == [(1, signal.SIGKILL)] * calls


def test_stop_keeps_the_first_signal_until_it_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    flag = stop.StopFlag()
    flag.check()
    assert not flag.is_asked
    try:
        flag.install()
        times = iter([100.0, 108.0, 103.25])
        monkeypatch.setattr(stop.time, "monotonic", lambda: next(times))
        os.kill(os.getpid(), signal.SIGTERM)
        assert flag.is_asked
        message = refused(STOPPED, flag.check)
        assert message == "Stopped on SIGTERM before the final commit [waited_s=8.0]"
        os.kill(os.getpid(), signal.SIGTERM)
        monkeypatch.setattr(stop.time, "monotonic", lambda: 103.25)
        assert refused(STOPPED, flag.check).endswith("[waited_s=3.2]")
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(failpoints.os, "kill", lambda pid, number: sent.append((pid, number)))
    monkeypatch.setattr(failpoints, "_passed", type(failpoints._passed)())
    return sent


@pytest.mark.parametrize(
    ("wish", "rank", "hits"),
    [
        ("KILL@here", None, [1]),
        ("TERM@here:2", None, [2]),
        ("STOP@here:3/0", None, [3]),
        ("STOP@here/1", "1", [1]),
        ("STOP@here/1", "0", []),
        ("STOP@here/1", None, []),
        ("KILL@there", None, []),
        (None, None, []),
    ],
)
def test_a_failpoint_fires_once_at_its_place_count_and_rank(
    monkeypatch: pytest.MonkeyPatch,
    signals: list[tuple[int, int]],
    wish: str | None,
    rank: str | None,
    hits: list[int],
) -> None:
    for name, value in ((failpoints.VARIABLE, wish), ("RANK", rank)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    found = []
    for number in range(1, 5):
        failpoints.hit("elsewhere")
        failpoints.hit("here")
        if len(signals) > len(found):
            found.append(number)
    assert found == hits
    number = getattr(signal, f"SIG{(wish or 'KILL')[:4]}")
    assert signals == [(os.getpid(), number)] * len(hits)


def test_an_invalid_failpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(failpoints.VARIABLE, "KILL here")
    message = "Expected LONGHAUL_TRAINER_STRIKE to look like KILL@after-update:2/1, got 'KILL here'"
    with pytest.raises(ValueError, match="^" + message + "$"):
        failpoints.hit("here")


# Progress.


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "progress.jsonl").read_text().splitlines()]


def test_progress_writes_one_line_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10, 20, 30, 40, 50, 60, 70])
    ours = threading.current_thread()
    # Heartbeats of this attempt and of jobs that earlier tests played have the same clock.
    monkeypatch.setattr(progress, "now_ms", lambda: next(times) if threading.current_thread() is ours else 0)
    monkeypatch.setattr(progress, "HEARTBEAT_S", 3600.0)
    told = progress.Progress(tmp_path / "deep" / "attempt", 4)
    assert (told.phase, told.last_event, list(told.tail)) == ("start", "", [])
    assert progress.place_of(told) == "in phase start"
    told.emit("started", value=math.nan, other=math.inf, number=1.5)
    told.phase = "train"
    told.emit("micro", done=1)
    told.emit("prox", done=1)
    told.emit("heartbeat")
    assert progress.place_of(told) == "in phase train after prox"
    told.emit("long", text="x" * 4096, kept="no")
    told.emit("edge", text="y" * 150)
    told.close()
    path = tmp_path / "deep" / "attempt"
    assert lines_of(path) == [
        {
            "t": 20,
            "seq": 1,
            "fence": 4,
            "event": "started",
            "phase": "start",
            "value": "nan",
            "other": "inf",
            "number": 1.5,
        },
        {"t": 30, "seq": 2, "fence": 4, "event": "micro", "phase": "train", "done": 1},
        {"t": 40, "seq": 3, "fence": 4, "event": "prox", "phase": "train", "done": 1},
        {"t": 50, "seq": 4, "fence": 4, "event": "heartbeat", "phase": "train"},
        {"t": 60, "seq": 5, "fence": 4, "event": "long", "phase": "train", "truncated": True},
        {"t": 70, "seq": 6, "fence": 4, "event": "edge", "phase": "train", "text": "y" * 150},
    ]
    lines = (path / "progress.jsonl").read_text().splitlines()
    # The tail leaves out frequent events.
    assert list(told.tail) == [lines[0], lines[4], lines[5]]
    assert (path / "progress.jsonl").stat().st_mode & 0o777 == 0o644


def test_a_line_has_less_than_4096_bytes_and_the_tail_twenty_lines_of_300(tmp_path: Path) -> None:
    told = progress.Progress(tmp_path, 1)
    told.emit("empty", text="")
    room = 4095 - len((tmp_path / "progress.jsonl").read_bytes().rstrip(b"\n"))
    for length in (room, room + 1):
        told.emit("empty", text="x" * length)
    told.close()
    sizes = [len(line) for line in (tmp_path / "progress.jsonl").read_bytes().splitlines()]
    assert sizes[1] == 4095
    assert lines_of(tmp_path)[2].keys() == {"t", "seq", "fence", "event", "phase", "truncated"}
    assert [len(line) for line in told.tail] == [sizes[0], 300, sizes[2]]
    for _ in range(30):
        told.emit("again")
    assert len(told.tail) == 20
    assert type(progress.Silent().tail) is deque
    assert progress.Silent().tail.maxlen == 20


def test_heartbeats_carry_the_time_of_the_last_other_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.01)
    ticks = iter(range(1000, 10_000_000))
    monkeypatch.setattr(progress, "now_ms", lambda: next(ticks))
    told = progress.Progress(tmp_path, 1)
    told.emit("started")
    deadline = time.monotonic() + 60
    # The heartbeat thread starts first, so beats may precede the event.
    while [line["event"] for line in lines_of(tmp_path)][-2:] != ["heartbeat"] * 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    told.close()
    lines = lines_of(tmp_path)
    started = next(line["t"] for line in lines if line["event"] == "started")
    behind = lines[[line["event"] for line in lines].index("started") + 1 :]
    assert [line["event"] for line in behind[:2]] == ["heartbeat"] * 2
    assert [line["last_progress_t"] for line in behind[:2]] == [started] * 2
    # Linux reports kibibytes. A Python process with torch has more than 50 MB and less than 50 GB.
    assert 50e6 < behind[0]["max_rss_bytes"] < 50e9
    assert behind[0]["max_rss_bytes"] % 1024 == 0
    # A daemon thread ends with its process, and stack dumps show its name.
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "heartbeat")


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Like a disk that becomes full: the kernel takes the bytes that fit, and refuses the next ones."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_line_cut_by_a_full_disk_does_not_swallow_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_S", 3600.0)
    path = tmp_path / "progress.jsonl"
    told = progress.Progress(tmp_path, 1)
    told.emit("started")
    size = path.stat().st_size
    with files_of_at_most(size + 10):
        for _ in range(2):
            with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
                told.emit("micro", done=1)
    told.emit("micro", done=2)
    told.emit("micro", done=3)
    told.close()
    whole, torn, *later = path.read_bytes().splitlines()
    assert (len(whole), len(torn)) == (size - 1, 10)
    assert [json.loads(line)["done"] for line in later] == [2, 3]
    # A process that was killed in a write: the next one of this attempt appends to its file.
    with path.open("ab") as file:
        file.write(b'{"t": 1')
    again = progress.Progress(tmp_path, 1)
    again.emit("started")
    again.close()
    *_, torn, last = path.read_bytes().splitlines()
    assert (torn, json.loads(last)["event"]) == (b'{"t": 1', "started")


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    path.write_bytes(b"old")
    with files_of_at_most(100), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        write_durably(path, b"x" * 200)
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("exit.json", b"old")]


def test_silent_keeps_its_position_and_writes_nothing() -> None:
    quiet = progress.Silent()
    assert (quiet.phase, quiet.last_event) == ("start", "")
    quiet.emit("loaded", seconds=1)
    quiet.close()
    assert progress.place_of(quiet) == "in phase start after loaded"


def test_last_event_comes_from_the_newest_earlier_attempt(tmp_path: Path) -> None:
    assert progress.last_event_ms(tmp_path / "absent", before=9) is None
    for fence, text in ((2, '{"t": 20}\n'), (10, '{"t": 1}\n{"t": 100}\n'), (11, '{"t": 110}\n')):
        (tmp_path / str(fence)).mkdir()
        (tmp_path / str(fence) / "progress.jsonl").write_text(text)
    (tmp_path / "1x").mkdir()
    assert progress.last_event_ms(tmp_path, before=12) == 110
    assert progress.last_event_ms(tmp_path, before=11) == 100
    assert progress.last_event_ms(tmp_path, before=10) == 20
    assert progress.last_event_ms(tmp_path, before=2) is None
    # A torn last line is skipped.
    (tmp_path / "2" / "progress.jsonl").write_text('{"t": 20}\n{"t": 30}\n{"t": 4')
    assert progress.last_event_ms(tmp_path, before=10) == 30
    for text in ("", "{", "{}", "7", "\n"):
        (tmp_path / "2" / "progress.jsonl").write_text(text)
        assert progress.last_event_ms(tmp_path, before=10) is None
    (tmp_path / "2" / "progress.jsonl").unlink()
    assert progress.last_event_ms(tmp_path, before=10) is None


# Saver.


def test_saver_writes_one_thing_at_a_time_and_hands_over_its_error_once() -> None:
    done: list[int] = []
    gate = threading.Event()
    one = saver.Saver()
    one.join()

    def wait() -> None:
        assert gate.wait(60)
        done.append(1)

    one.start(wait)
    thread = one._thread
    assert thread is not None
    # A daemon thread ends with its process, and stack dumps show its name.
    assert (thread.name, thread.daemon) == ("saver", True)
    assert done == []
    gate.set()
    one.start(lambda: done.append(2))
    assert done[0] == 1
    one.join()
    assert done == [1, 2]

    def fail() -> None:
        raise OSError(errno.ENOSPC, "full")

    one.start(fail)
    with pytest.raises(OSError, match="full"):
        one.join()
    one.join()
    one.start(fail)
    with pytest.raises(OSError, match="full"):
        one.start(lambda: done.append(3))
    one.join()
    assert done == [1, 2]


# Commit.


def commit_into(final: Path, **changes: Any) -> Any:
    named: dict[str, Any] = {
        "kind": "prox",
        "fence": 5,
        "facts": {"key": "k", "more": 1},
        "write": lambda staging: (staging / "data").write_text("1"),
        "check_fence": lambda: None,
    }
    return commit.commit(final, **{**named, **changes})


def test_commit_publishes_once_under_the_final_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[str] = []
    monkeypatch.setattr(commit, "hit", passed.append)
    final = tmp_path / "deep" / "prox"
    stagings: list[str] = []

    def write(staging: Path) -> None:
        stagings.append(staging.name)
        (staging / "data").write_text("1")
        (staging / commit.ATTEMPT_FILE).write_text("{}")

    sealed = commit_into(final, write=write)
    assert stagings == [".staging-5-prox"]
    assert passed == ["prox.staged", "prox.sealed", "prox.renamed", "prox.committed"]
    assert sealed == open_sealed(final)
    assert {name: sealed.manifest[name] for name in ("kind", "key", "more")} == {"kind": "prox", "key": "k", "more": 1}
    assert [entry["path"] for entry in sealed.manifest["files"]] == ["data"]
    assert sorted(path.name for path in final.parent.iterdir()) == ["prox"]
    # A second commit finds the directory and does not write.
    again = commit_into(final, write=lambda staging: pytest.fail("written twice"))
    assert again == sealed
    message = refused(OUTPUT_UNWRITABLE, commit_into, final, facts={"key": "other"})
    assert message == f"Expected {final} to be free or of job other, found k"
    assert open_sealed(final) == sealed


def test_commit_removes_files_of_older_attempts_and_its_own_partial_output(tmp_path: Path) -> None:
    final = tmp_path / "prox"
    for name in (".staging-4-prox", ".staging-5-prox", ".staging-6-prox", ".staging-x-prox", ".staging-4-other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").write_text("")

    def fail(staging: Path) -> None:
        (staging / "half").write_text("")
        raise OSError(errno.ENOSPC, "No space left")

    with pytest.raises(OSError, match="No space left"):
        commit_into(final, write=fail)
    left = [".staging-4-other", ".staging-6-prox", ".staging-x-prox"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    # Losing the fence before the rename leaves nothing either.
    fenced = JobError(FENCED, "Fence 5 is superseded by 6")

    def check() -> None:
        raise fenced

    assert refused(FENCED, commit_into, final, check_fence=check) == fenced.message
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    # Known hashes are used without hashing again.
    sealed = commit_into(final, known={"data": "0" * 64})
    assert sealed.manifest["files"] == [{"path": "data", "bytes": 1, "sha256": "0" * 64}]


@pytest.mark.parametrize("torn", [False, True])
def test_the_second_of_two_concurrent_attempts_takes_the_first_ones_output(tmp_path: Path, torn: bool) -> None:
    final = tmp_path / "prox"

    def lose() -> None:
        final.mkdir()
        (final / "data").write_text("winner")
        if not torn:
            seal(final, kind="prox", facts={"key": "k"})

    if torn:
        message = refused(OUTPUT_UNWRITABLE, commit_into, final, check_fence=lose)
        assert message == f"Expected the winner's output in {final}, found a torn directory"
    else:
        found = commit_into(final, check_fence=lose)
        assert (found.path / "data").read_text() == "winner"
    assert not (tmp_path / ".staging-5-prox").exists()


def test_adopting_completes_an_intact_directory_and_moves_a_torn_one_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit.time, "time_ns", lambda: 42)
    final = tmp_path / "prox"
    assert commit.adopt(final, key="k") is None
    sealed = commit_into(final)
    (final / "COMMITTED").unlink()
    assert commit.adopt(final, key="k") == sealed
    assert (final / "COMMITTED").read_text() == f"{sealed.sha256}\n"
    (final / "data").write_text("2")
    # The size is equal, so only the hash differs.
    assert commit.adopt(final, key="k", hashes=False) == sealed
    assert commit.adopt(final, key="k") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [".torn-prox-42"]
    sealed = commit_into(final)
    (final / "COMMITTED").unlink()
    (final / "data").write_text("2")
    monkeypatch.setattr(commit.time, "time_ns", lambda: 43)
    # Without a marker every hash is checked, even with hashes=False.
    assert commit.adopt(final, key="k", hashes=False) is None
    final.mkdir()
    monkeypatch.setattr(commit.time, "time_ns", lambda: 44)
    assert commit.adopt(final, key="k") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [".torn-prox-42", ".torn-prox-43", ".torn-prox-44"]
    with pytest.raises(TornDirectory):
        open_sealed(tmp_path / ".torn-prox-43")


def test_a_directory_whose_manifest_differs_from_its_marker_is_torn_whatever_key_it_names(tmp_path: Path) -> None:
    final = tmp_path / "prox"
    commit_into(final)
    manifest = final / "MANIFEST.json"
    intact = manifest.read_text()
    for damaged in ('"key": "j"', '"yek": "k"', '"key": ["k"]'):
        assert intact.count('"key": "k"') == 1
        manifest.write_text(intact.replace('"key": "k"', damaged))
        sealed = commit_into(final)
        assert manifest.read_text() == intact
        assert commit.adopt(final, key="k") == sealed
    assert len([path for path in tmp_path.iterdir() if path.name.startswith(".torn-prox-")]) == 3
    # Without a marker nothing says whether the key is damaged. The directory may belong to another job, so it stays where it is.
    (final / "COMMITTED").unlink()
    message = refused(OUTPUT_UNWRITABLE, commit_into, final, facts={"key": "other"})
    assert message == f"Expected {final} to be free or of job other, found k"
    # A manifest that lists something other than files.
    for listed in (
        3,
        {"path": 3, "bytes": 1, "sha256": ""},
        {"path": "data", "sha256": ""},
        {"path": "data", "bytes": 1},
    ):
        manifest.write_text(json.dumps({**json.loads(intact), "files": [listed]}))
        assert commit.adopt(final, key="k") is None
        commit_into(final)
        (final / "COMMITTED").unlink()


# Packing of rows.


def gather(rows: list[int], **changes: Any) -> Any:
    named: dict[str, Any] = {
        "offsets": np.array([0, 4, 7, 9]),
        "input_ids": np.arange(100, 109, dtype=np.int32),
        "label_mask": np.array([1, 0, 1, 1, 0, 1, 0, 0, 2]),
        "device": CPU,
    }
    return gather_rows(rows, **{**named, **changes})


def parts_of(micro: Any) -> dict[str, Any]:
    assert {tensor.dtype for tensor in (micro.tokens, micro.positions, micro.predictors, micro.targets)} == {
        torch.int64
    }
    assert micro.tokens.shape == micro.positions.shape == (1, micro.tokens.shape[1])
    return {
        "tokens": micro.tokens[0].tolist(),
        "positions": micro.positions[0].tolist(),
        "rows": micro.row_lengths,
        "predictors": micro.predictors.tolist(),
        "targets": micro.targets.tolist(),
        "index": micro.index.tolist(),
    }


def test_the_micro_batch_has_the_running_sum_of_its_rows() -> None:
    ends = gather([2, 0]).row_ends
    assert (ends.tolist(), ends.dtype) == ([0, 2, 6], torch.int32)
    # The padding segment counts, also in a dummy.
    assert gather([2, 0, 1], cp=2).row_ends.tolist() == [0, 2, 6, 9, 10]
    assert gather([], cp=2).row_ends.tolist() == [0, 2]


def test_rows_are_concatenated_and_labels_follow_their_predictors() -> None:
    # The first token of a row is never a label, even if the mask includes it, as in row 0.
    assert parts_of(gather([2, 0])) == {
        "tokens": [107, 108, 100, 101, 102, 103],
        "positions": [0, 1, 0, 1, 2, 3],
        "rows": (2, 4),
        "predictors": [0, 3, 4],
        "targets": [108, 102, 103],
        "index": [8, 2, 3],
    }
    # Three ranks: a segment of zeros after the rows extends seven tokens to nine, three per rank.
    padded = [parts_of(gather([0, 1], cp=3, cp_rank=rank)) for rank in range(3)]
    assert [part["tokens"] for part in padded] == [[100, 101, 102], [103, 104, 105], [106, 0, 0]]
    assert [part["positions"] for part in padded] == [[0, 1, 2], [3, 0, 1], [2, 0, 1]]
    assert [part["rows"] for part in padded] == [(4, 3, 2)] * 3
    # Token 103 is on the second rank; the last token of the first rank predicts it.
    assert [part["predictors"] for part in padded] == [[1, 2], [1], []]
    assert [part["index"] for part in padded] == [[2, 3], [5], []]
    # Already divisible: no padding segment.
    assert parts_of(gather([0], cp=2))["rows"] == (4,)


@pytest.mark.parametrize("cp", [1, 2])
def test_no_rows_make_a_dummy_of_one_token_a_rank_without_labels(cp: int) -> None:
    assert parts_of(gather([], cp=cp, cp_rank=cp - 1)) == {
        "tokens": [0],
        "positions": [cp - 1],
        "rows": (cp,),
        "predictors": [],
        "targets": [],
        "index": [],
    }


# Sums over a mini-batch.


class Pair(Ranks):
    """Two ranks with equal values."""

    def sums(self, values: Any) -> list[float]:
        return [2 * value for value in values]

    def maxima(self, values: Any) -> list[float]:
        return [value + 0.5 for value in values]


def test_counts_and_sums_are_added_over_ranks_and_maxima_are_taken() -> None:
    step = Step(1, 0.5, 0.25, 3, 4, 5, 6.5, 7.5, 8.5)
    found = step.add_up(Pair(device=CPU))
    assert found == Step(2, 1.0, 0.5, 6, 8, 10, 13.0, 8.0, 9.0)
    assert {type(count) for count in (found.labels, found.clip_low, found.clip_high, found.dual_clip)} == {int}


def test_a_micro_batch_adds_its_counts_and_an_empty_one_nothing() -> None:
    from longhaul_trainer.objective.losses import LossStats

    step = Step()
    step.add(LossStats(clip_low=1, clip_high=2, dual_clip=3, ratios=torch.tensor([0.5, 1.5])))
    step.add(LossStats(clip_low=10, clip_high=20, dual_clip=30, ratios=torch.tensor([1.0])))
    step.add(LossStats(clip_low=0, clip_high=0, dual_clip=0, ratios=torch.zeros(0)))
    assert step == Step(clip_low=11, clip_high=22, dual_clip=33, ratio_sum=3.0, ratio_max=1.5)


# Canary and proximal files.


def batch_of(lengths: list[int]) -> Batch:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    ids = np.arange(offsets[-1], dtype=np.int32) + 50
    return Batch(offsets, ids, np.ones(len(ids), dtype=np.uint8), None, None, [], 1.0, 0)


def test_canary_reads_the_first_rows_with_four_times_the_wanted_positions() -> None:
    batch = batch_of([3, 5, 4, 4])
    assert [canary.canary_rows(batch, positions) for positions in (1, 2, 3, 4, 99)] == [
        [0, 1],
        [0, 1],
        [0, 1, 2],
        [0, 1, 2, 3],
        [0, 1, 2, 3],
    ]


def test_canary_takes_the_largest_differences_the_earlier_one_of_equals_and_no_first_token(tmp_path: Path) -> None:
    batch = batch_of([3, 4, 5])
    old = np.array([9.0, 0.0, 1.0, 9.0, 0.5, 1.0, 3.0], dtype=np.float32)
    new = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0], dtype=np.float32)
    # Differences at 1, 2, 4, 5, 6: 1, 1, 0.5, 1, 3. First tokens 0 and 3 have 9 and do not count.
    canary.write_canary(tmp_path, batch=batch, rows=[0, 1], old=old, new=new, positions=3)
    found = load_file(tmp_path / "canary.safetensors")
    assert {name: value.tolist() for name, value in found.items()} == {
        "row_offsets": [0, 3, 7],
        "input_ids": [50, 51, 52, 53, 54, 55, 56],
        "position_row": [0, 0, 1],
        "position_index": [1, 2, 3],
        "old_logprobs": [0.0, 1.0, 3.0],
        "new_logprobs": [1.0, 0.0, 0.0],
    }
    # More positions than labels: all labels.
    canary.write_canary(tmp_path, batch=batch, rows=[0, 1], old=old, new=new, positions=50)
    found = load_file(tmp_path / "canary.safetensors")
    assert found["position_index"].tolist() == [1, 2, 1, 2, 3]
    canary.write_old(tmp_path, old)
    assert canary.read_old(tmp_path).tolist() == old.tolist()
    assert (tmp_path / "canary-old.safetensors").is_file()


def test_proximal_file_holds_every_scored_token_and_zeros(tmp_path: Path) -> None:
    batch = batch_of([4, 3])
    seen: list[float] = []
    told: list[int] = []

    class Scorer:
        def __call__(self, micro: Any, temperature: float) -> tuple[torch.Tensor, None]:
            seen.append(temperature)
            assert not torch.is_grad_enabled()
            return -micro.targets.double(), None

    mask = np.array([0, 1, 0, 1, 0, 0, 1])
    micros = [
        gather_rows([row], offsets=batch.offsets, input_ids=batch.input_ids, label_mask=mask, device=CPU)
        for row in (1, 0)
    ]
    ranks = Ranks(device=CPU)
    values = prox.compute_prox(Scorer(), batch, iter(micros), ranks=ranks, after_micro=told.append)  # type: ignore[arg-type]
    assert (values.tolist(), values.dtype) == ([0, -51, 0, -53, 0, 0, -56], np.float32)
    assert (seen, told) == ([1.0, 1.0], [1, 2])
    prox.write_prox(tmp_path, values)
    assert load_file(tmp_path / "prox.safetensors").keys() == {"prox_logprobs"}
    assert prox.read_prox(tmp_path).tolist() == values.tolist()


# Export of configs.


def test_tokenizer_files_are_copied_byte_for_byte_and_only_end_ids_of_generation(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (source / name).write_text(f" {name} \n")
    (source / "config.json").write_text('{"a":  1}')
    (source / "model.safetensors").write_text("weights")
    export.copy_architecture(source, target)
    copied = {path.name: path.read_text() for path in target.iterdir()}
    assert copied["config.json"] == '{"a":  1}'
    assert copied["tokenizer.json"] == " tokenizer.json \n"
    assert copied["tokenizer_config.json"] == " tokenizer_config.json \n"
    assert "model.safetensors" not in copied
    assert "generation_config.json" not in copied
    ids = {"bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": None}
    (source / "generation_config.json").write_text(json.dumps({**ids, "temperature": 0.7, "top_k": 20}))
    export.copy_generation_ids(source, target)
    assert json.loads((target / "generation_config.json").read_text()) == ids
    (source / "generation_config.json").write_text(json.dumps({"eos_token_id": 2, "top_p": 0.5}))
    export.copy_generation_ids(source, target)
    assert json.loads((target / "generation_config.json").read_text()) == {"eos_token_id": 2}


def test_rope_is_written_in_both_forms_unless_it_is_plain() -> None:
    assert export.with_both_rope_forms({"a": 1}) == {"a": 1}
    for odd in (None, [1], {"rope_type": "yarn"}):
        assert export.with_both_rope_forms({"rope_parameters": odd}) == {"rope_parameters": odd}
    for plain in ({"rope_theta": 5.0}, {"rope_theta": 5.0, "rope_type": "default"}):
        found = export.with_both_rope_forms({"rope_parameters": plain, "b": 2})
        assert found == {"rope_parameters": plain, "b": 2, "rope_theta": 5.0}
    yarn = {"rope_theta": 1e6, "rope_type": "yarn", "factor": 4.0}
    assert export.with_both_rope_forms({"rope_parameters": yarn}) == {
        "rope_parameters": yarn,
        "rope_theta": 1e6,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    }


def test_finished_config_names_the_dtype_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"dtype": "float32", "rope_parameters": {"rope_theta": 5.0}}))
    export.finish_config(tmp_path, torch.bfloat16)
    expected = {"dtype": "bfloat16", "rope_parameters": {"rope_theta": 5.0}, "rope_theta": 5.0}
    assert json.loads((tmp_path / "config.json").read_text()) == expected


def test_weights_are_rounded_in_place_and_kept_in_fp32() -> None:
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.fill_(1.0 + 2**-10)
        layer.bias.fill_(1.0 + 2**-7)
    export.round_weights(layer, torch.bfloat16)
    assert layer.weight.dtype == torch.float32
    assert layer.weight.unique().tolist() == [1.0]
    assert layer.bias.unique().tolist() == [1.0 + 2**-7]
    assert layer.weight.requires_grad
    found = export.policy_weights(layer, torch.bfloat16, Ranks(device=CPU))
    assert {name: value.dtype for name, value in found.items()} == {"weight": torch.bfloat16, "bias": torch.bfloat16}


# Ranks and devices.


def test_only_the_first_rank_copies_whole_tensors_to_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: (copied.append("tensor"), self)[1])
    named = {"a": torch.ones(2), "b": torch.zeros(3)}
    assert whole_tensors(iter(named.items()), Ranks(device=CPU, rank=1, world=2)) == {}
    assert copied == []
    found = whole_tensors(iter(named.items()), Ranks(device=CPU, rank=0, world=2))
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"a": [1, 1], "b": [0, 0, 0]}
    assert copied == ["tensor"] * 2


def test_ranks_that_share_rows_use_the_timeout_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def new_group(members: list[int], **named: Any) -> str:
        made.append((members, {name: value.total_seconds() for name, value in named.items()}))
        return f"group of {members}"

    monkeypatch.setattr(ranks_module.dist, "new_group", new_group)
    assert ranks_module._context_group(rank=3, world=4, cp=2, timeout_s=96.0) == "group of [2, 3]"
    assert made == [([0, 1], {"timeout": 96.0}), ([2, 3], {"timeout": 96.0})]
    assert ranks_module._context_group(rank=3, world=4, cp=1, timeout_s=96.0) is None


def test_libraries_are_configured_before_use_and_an_operators_settings_win(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, expected in (
        ({}, "expandable_segments:True"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "x"}, "x"),
        ({"PYTORCH_ALLOC_CONF": "y"}, None),
    ):
        environment = dict(given)
        # Restored at once, because the test runner reads its own variables from os.environ.
        with monkeypatch.context() as patched:
            patched.setattr(entry.os, "environ", environment)
            entry.set_environment()
        assert environment.get("PYTORCH_CUDA_ALLOC_CONF") == expected
        assert environment["HF_HUB_OFFLINE"] == "1"
