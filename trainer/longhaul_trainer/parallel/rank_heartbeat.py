"""Heartbeats of ranks. They show which rank a failed collective waited for; the collective's error does not."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

# Each rank does one small write per interval.
BEAT_S = 1.0
# Two and a half beats: a live rank writes within this time. Contents are compared, so clocks may differ.
LOOK_S = 2.5 * BEAT_S


class Beat:
    """Starts a daemon thread that writes this rank's position into `directory/<rank>` every second."""

    def __init__(self, directory: Path, rank: int, where: Callable[[], str]) -> None:
        self._path = directory / str(rank)
        self._new = directory / f"{rank}.new"
        self._where = where
        self._stop = threading.Event()
        # Once before this returns: this rank's report of its end needs the directory.
        self._write(0)
        threading.Thread(target=self._beat, name="rank-heartbeat", daemon=True).start()

    def close(self) -> None:
        self._stop.set()

    def _beat(self) -> None:
        number = 0
        while not self._stop.wait(BEAT_S):
            number += 1
            self._write(number)

    def _write(self, number: int) -> None:
        # On a full disk this rank looks silent. Other writers report the full disk.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # A rank that stops in the middle of a write would leave an empty file, and no position.
            self._new.write_text(f"{number} {self._where()}")
            self._new.replace(self._path)


def find_silent(directory: Path, *, world: int, look_s: float = LOOK_S) -> dict[int, str]:
    """Ranks that write nothing for `look_s` seconds, each with its last position."""
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
