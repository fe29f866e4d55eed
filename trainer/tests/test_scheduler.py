"""The model thread: no request waits for a later one, and idle engines free the memory of past requests."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_policy import write_tiny_policy

from longhaul_trainer.serve import scheduler
from longhaul_trainer.serve.engine import Engine, Generation
from longhaul_trainer.serve.registry import Registry
from longhaul_trainer.serve.scheduler import Scheduler


class OneStep:
    """A fake engine that finishes each request after one step."""

    def __init__(self) -> None:
        self.waiting: list[threading.Event] = []
        self.released = threading.Event()

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting)

    def submit(self, done: threading.Event) -> None:
        self.waiting.append(done)

    def iterate(self) -> None:
        done, self.waiting = self.waiting, []
        for event in done:
            event.set()

    def release_memory(self) -> None:
        assert not self.waiting
        self.released.set()


def test_a_single_request_is_served_even_if_gathering_ends_late(monkeypatch: pytest.MonkeyPatch) -> None:
    # Simulates a delayed thread: a timed get from the queue starts after its deadline.
    monkeypatch.setattr(scheduler, "GATHER_S", 1e-6)
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: 0.0)
    running, engine = Scheduler(), OneStep()
    for _ in range(3000):
        done: Any = threading.Event()
        running.submit(engine, done)  # type: ignore[arg-type]
        assert done.wait(timeout=1200)


def test_an_idle_engine_releases_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "IDLE_S", 0.05)
    running, engine = Scheduler(), OneStep()
    for _ in range(3):
        engine.released.clear()
        done: Any = threading.Event()
        running.submit(engine, done)  # type: ignore[arg-type]
        assert done.wait(timeout=1200)
        assert engine.released.wait(timeout=1200)


def test_an_idle_engine_releases_its_memory_while_another_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "IDLE_S", 0.05)
    idle = OneStep()

    class UntilTheOtherRests(OneStep):
        def iterate(self) -> None:
            if idle.released.is_set():
                super().iterate()

    running = Scheduler()
    for engine in (idle, UntilTheOtherRests()):
        done: Any = threading.Event()
        running.submit(engine, done)  # type: ignore[arg-type]
        assert done.wait(timeout=1200)


def test_an_idle_engine_that_is_evicted_is_garbage_collected() -> None:
    running, engine = Scheduler(), OneStep()
    done: Any = threading.Event()
    running.submit(engine, done)  # type: ignore[arg-type]
    assert done.wait(timeout=1200)
    gone = threading.Event()
    weakref.finalize(engine, gone.set)
    del engine
    assert gone.wait(timeout=1200)


def test_a_session_continues_unchanged_in_an_engine_that_released_its_memory(tmp_path: Path) -> None:
    registry = Registry(state_dir=tmp_path, max_versions=1, device=torch.device("cpu"))
    write_tiny_policy(tmp_path / "policy")
    registry.load(path=str(tmp_path / "policy"), version="v", manifest_sha256=None, holder=None, lease_s=60)
    engine = registry.engine("v")
    first = ask(engine, list(range(40, 60)), session="one")
    prompt = [*first.prompt, *first.ids, 41, 42]
    kept = ask(engine, prompt, session="one")
    ask(engine, list(range(40, 60)), session="one")
    engine.release_memory()
    assert engine._slots.keys.numel() == 0
    again = ask(engine, prompt, session="one")
    assert (again.ids, again.cached_tokens) == (kept.ids, kept.cached_tokens)
    assert again.logprobs == pytest.approx(kept.logprobs, abs=1e-4)
    assert kept.cached_tokens > 20


def ask(engine: Engine, prompt: list[int], *, session: str) -> Generation:
    ended: list[BaseException | None] = []
    asked = Generation(
        prompt=prompt,
        max_tokens=8,
        temperature=1.0,
        seed=3,
        stop_ids=frozenset(),
        salt="",
        session=session,
        score_prompt=False,
        finish=ended.append,
    )
    engine.submit(asked)
    while not ended:
        engine.iterate()
    assert ended == [None]
    return asked
