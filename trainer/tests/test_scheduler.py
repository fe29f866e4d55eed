"""The model thread: no request waits for another one to come."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from longhaul_trainer.serve import scheduler
from longhaul_trainer.serve.scheduler import Scheduler


class OneStep:
    """What the scheduler asks of an engine: each request is done after one step."""

    def __init__(self) -> None:
        self.waiting: list[threading.Event] = []

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting)

    def submit(self, done: threading.Event) -> None:
        self.waiting.append(done)

    def iterate(self) -> None:
        done, self.waiting = self.waiting, []
        for event in done:
            event.set()


def test_a_request_that_comes_alone_is_served_whatever_the_gathering_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a machine that holds the thread up: a timed look at the queue begins when its time is over.
    monkeypatch.setattr(scheduler, "GATHER_S", 1e-6)
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: 0.0)
    running, engine = Scheduler(), OneStep()
    for _ in range(3000):
        done: Any = threading.Event()
        running.submit(engine, done)  # type: ignore[arg-type]
        assert done.wait(timeout=1200)
