"""Heartbeats of ranks: they tell which rank a failed collective waited for, which the collective does not."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

# One small write a rank.
BEAT_S = 1.0
# Two beats and a half: a live rank has written in between, also when its machine's clock differs.
LOOK_S = 2.5 * BEAT_S


class Beat:
    """A thread of each rank that writes the place of the rank into `directory/<rank>` every second. It stops with its process."""

    def __init__(self, directory: Path, rank: int, where: Callable[[], str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / str(rank)
        self._where = where
        self._stop = threading.Event()
        threading.Thread(target=self._beat, name="rank-heartbeat", daemon=True).start()

    def close(self) -> None:
        self._stop.set()

    def _beat(self) -> None:
        number = 0
        while True:
            number += 1
            # On a full disk this rank looks silent; what filled it is reported by others.
            with contextlib.suppress(OSError):
                self._path.write_text(f"{number} {self._where()}")
            if self._stop.wait(BEAT_S):
                return


def find_silent(directory: Path, *, world: int, look_s: float = LOOK_S) -> dict[int, str]:
    """Ranks that write nothing for `look_s`, each with the place that it was last seen at."""
    before = _read(directory, world)
    time.sleep(look_s)
    after = _read(directory, world)
    return {rank: _place(after[rank]) for rank in range(world) if after[rank] == before[rank]}


def format_silent_ranks(silent: dict[int, str], *, world: int) -> str:
    if not silent:
        return f"all {world} ranks still write, so one of them waits elsewhere"
    named = ", ".join(f"rank {rank} (last seen {place})" for rank, place in silent.items())
    return f"gone or standing still: {named}"


def _read(directory: Path, world: int) -> list[str | None]:
    found: list[str | None] = []
    for rank in range(world):
        try:
            found.append((directory / str(rank)).read_text())
        except OSError:
            found.append(None)
    return found


def _place(text: str | None) -> str:
    return "nowhere" if text is None else text.partition(" ")[2] or "at its start"
