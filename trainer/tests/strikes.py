"""Runs jobs in forked children: real processes that die by real signals, without importing torch each time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from longhaul_trainer.step.command import step
from longhaul_trainer.step.failpoints import VARIABLE

TIMEOUT_S = 1200
_running: set[int] = set()


def nothing() -> None:
    pass


def start(
    spec_path: Path,
    *,
    strike: str | None = None,
    before: Callable[[], None] = nothing,
    after: Callable[[], None] = nothing,
) -> int:
    """Forks a child that runs the job and returns its pid. `strike`: see failpoints.py; `before` and `after` run in the child."""
    sys.stdout.flush()
    sys.stderr.flush()
    if child := os.fork():
        _running.add(child)
        return child
    code = 99
    try:
        if strike is not None:
            os.environ[VARIABLE] = strike
        before()
        code = step(spec_path, dry_run=False)
        after()
    except BaseException:
        traceback.print_exc()
    finally:
        # Not sys.exit: no code of the test runner may run in the child.
        os._exit(code)


def start_ranks(spec_path: Path, *, world: int, strike: str | None = None) -> list[int]:
    """Starts one child per rank with torchrun's environment. Returns the pids in rank order."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}

    def become(rank: int) -> Callable[[], None]:
        return lambda: os.environ.update(place, RANK=str(rank), LOCAL_RANK=str(rank))

    return [start(spec_path, strike=strike, before=become(rank)) for rank in range(world)]


def run_ranks(spec_path: Path, *, world: int, strike: str | None = None) -> list[int]:
    return [finish(child) for child in start_ranks(spec_path, world=world, strike=strike)]


def wait_until_stopped(child: int) -> None:
    """Waits until a SIGSTOP has stopped the child. Raises AssertionError if it ended instead."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if pid:
            assert os.WIFSTOPPED(status), f"ended with status {status}"
            return
        time.sleep(0.005)
    raise AssertionError(f"The child did not stop within {TIMEOUT_S} s")


def finish(child: int) -> int:
    """Waits for the child. Returns its exit code, or the negative number of the signal that ended it."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            _running.discard(child)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    end_running()
    raise AssertionError(f"The job was not done within {TIMEOUT_S} s")


def end_running() -> None:
    """Kills the children that a test has not waited for: a stopped one would keep the whole session open after a failed test."""
    for child in list(_running):
        _running.discard(child)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def run(
    spec_path: Path,
    *,
    strike: str | None = None,
    before: Callable[[], None] = nothing,
    after: Callable[[], None] = nothing,
) -> int:
    return finish(start(spec_path, strike=strike, before=before, after=after))
