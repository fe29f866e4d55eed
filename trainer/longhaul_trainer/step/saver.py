"""Writes one checkpoint at a time in a thread while training continues."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Saver:
    """The next `join` raises the thread's exception. Without a `join` a partial directory may remain, which the next attempt clears."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def start(self, work: Callable[[], object]) -> None:
        self.join()
        self._thread = threading.Thread(target=self._run, args=(work,), name="saver", daemon=True)
        self._thread.start()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            self._error = error
