"""SIGTERM: the handler sets a flag, and the job exits with 75 at the next micro-batch boundary."""

from __future__ import annotations

import signal
import time

from longhaul_trainer.failures import STOPPED, JobError


class StopFlag:
    """Correctness rests on the last commit. Stopping at a boundary only saves time."""

    def __init__(self) -> None:
        self._asked_at: float | None = None

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, *_: object) -> None:
        self._asked_at = self._asked_at or time.monotonic()

    @property
    def is_asked(self) -> bool:
        return self._asked_at is not None

    def check(self) -> None:
        if self._asked_at is not None:
            waited = time.monotonic() - self._asked_at
            raise JobError(STOPPED, f"Stopped on SIGTERM before the final commit [waited_s={waited:.1f}]")
