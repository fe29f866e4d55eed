"""The model thread: collects requests and runs the batch of each busy policy in turn. A failing batch does not end the thread."""

from __future__ import annotations

import queue
import threading
import time
import weakref

from longhaul_trainer.serve.engine import Engine, Generation

# Requests that arrive within this time of the first one share its forward pass.
GATHER_S = 0.005
# An engine that is idle for this long frees its memory: of several served versions, only one or two are sampled.
IDLE_S = 30.0


class Scheduler:
    def __init__(self) -> None:
        # Not a SimpleQueue: in CPython 3.11 its `get(timeout=…)` waits for ever if the thread is delayed past the timeout.
        self._queue: queue.Queue[tuple[Engine, Generation]] = queue.Queue()
        self._busy: list[Engine] = []
        # When each engine finished its last request. Weak keys, so that an evicted version is freed at once.
        self._idle_since: weakref.WeakKeyDictionary[Engine, float] = weakref.WeakKeyDictionary()
        threading.Thread(target=self._run, name="model", daemon=True).start()

    def submit(self, engine: Engine, generation: Generation) -> None:
        """Callable from any thread. The engine stays alive until the request is done, even if its version is evicted."""
        self._queue.put((engine, generation))

    def _run(self) -> None:
        while True:
            if not self._busy:
                self._gather()
            self._drain()
            self._step()
            self._rest()

    def _gather(self) -> None:
        """Waits for a request, or until an engine may have been idle for IDLE_S. `_drain` takes the requests that follow closely."""
        try:
            request = self._queue.get(timeout=IDLE_S if self._idle_since else None)
        except queue.Empty:
            return
        self._accept(*request)
        time.sleep(GATHER_S)

    def _step(self) -> None:
        for engine in self._busy:
            try:
                engine.iterate()
            except Exception as error:
                engine.fail_all(error)

    def _rest(self) -> None:
        now = time.monotonic()
        self._idle_since.update({engine: now for engine in self._busy if not engine.is_busy})
        self._busy = [engine for engine in self._busy if engine.is_busy]
        for engine in [engine for engine, since in self._idle_since.items() if now - since >= IDLE_S]:
            del self._idle_since[engine]
            engine.release_memory()

    def _drain(self) -> None:
        while True:
            try:
                self._accept(*self._queue.get_nowait())
            except queue.Empty:
                return

    def _accept(self, engine: Engine, generation: Generation) -> None:
        engine.submit(generation)
        self._idle_since.pop(engine, None)
        if engine not in self._busy:
            self._busy.append(engine)
