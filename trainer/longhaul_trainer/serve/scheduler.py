"""The model thread: collects requests, runs every loaded policy's batch in turn, survives a failing one."""

from __future__ import annotations

import queue
import threading
import time

from longhaul_trainer.serve.engine import Engine, Generation

# Requests that arrive this close together share the first forward pass.
GATHER_S = 0.005


class Scheduler:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Engine, Generation]] = queue.SimpleQueue()
        self._busy: list[Engine] = []
        threading.Thread(target=self._run, name="model", daemon=True).start()

    def submit(self, engine: Engine, generation: Generation) -> None:
        """From any thread. The engine stays alive until the request is done, also when its version is evicted."""
        self._queue.put((engine, generation))

    def _run(self) -> None:
        while True:
            if not self._busy:
                self._gather()
            self._drain()
            for engine in self._busy:
                try:
                    engine.iterate()
                except Exception as error:
                    engine.fail_all(error)
            self._busy = [engine for engine in self._busy if engine.is_busy]

    def _gather(self) -> None:
        """Waits for a request; `_drain` takes those that come right behind it."""
        self._accept(*self._queue.get())
        # Not `get(timeout=…)`: CPython 3.11's SimpleQueue waits for ever in it where the thread is held up past the timeout, and the
        # request at hand would wait for the next one to come.
        time.sleep(GATHER_S)

    def _drain(self) -> None:
        while True:
            try:
                self._accept(*self._queue.get_nowait())
            except queue.Empty:
                return

    def _accept(self, engine: Engine, generation: Generation) -> None:
        engine.submit(generation)
        if engine not in self._busy:
            self._busy.append(engine)
