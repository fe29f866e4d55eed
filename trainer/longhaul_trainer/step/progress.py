"""progress.jsonl: one object per line, one O_APPEND write per line, one file per attempt, so a superseded attempt never interleaves."""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import threading
from collections import deque
from pathlib import Path
from typing import Any

from longhaul_trainer.step.clock import now_ms

MAX_LINE = 4096
HEARTBEAT_S = 10.0
TAIL = 20


class Progress:
    """Thread-safe. A thread of its own writes heartbeats with the time of the last other event."""

    def __init__(self, directory: Path, fence: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(directory / "progress.jsonl", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._is_torn = _ends_within_a_line(self._descriptor)
        self._fence = fence
        self._seq = 0
        self._last = now_ms()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.phase = "start"
        self.last_event = ""
        self.tail: deque[str] = deque(maxlen=TAIL)
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def emit(self, event: str, **fields: Any) -> None:
        with self._lock:
            self._seq += 1
            now = now_ms()
            if event != "heartbeat":
                self._last = now
                self.last_event = event
            line = {"t": now, "seq": self._seq, "fence": self._fence, "event": event, "phase": self.phase, **fields}
            data = json.dumps({name: plain(value) for name, value in line.items()}).encode()
            if len(data) >= MAX_LINE:
                data = json.dumps({**dict(list(line.items())[:5]), "truncated": True}).encode()
            self._append(data + b"\n")
            if event not in ("heartbeat", "micro", "prox"):
                self.tail.append(data.decode()[:300])

    def close(self) -> None:
        self._stop.set()

    def _append(self, line: bytes) -> None:
        """A line that a full disk cut ends here: otherwise this one would be lost with it."""
        rest = b"\n" + line if self._is_torn else line
        while rest:
            # A disk that fills up takes a part of the bytes without an error; the write of the rest gives the error.
            written = os.write(self._descriptor, rest)
            self._is_torn = rest[written - 1 : written] != b"\n"
            rest = rest[written:]

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            # Linux reports kibibytes.
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            with contextlib.suppress(OSError):
                self.emit("heartbeat", last_progress_t=self._last, max_rss_bytes=memory)


def _ends_within_a_line(descriptor: int) -> bool:
    """Whether the file ends in the middle of a line: an earlier process of this attempt was killed, or its disk was full."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


class Silent:
    """Progress of all ranks but the first, which alone writes the file."""

    def __init__(self) -> None:
        self.phase = "start"
        self.last_event = ""
        self.tail: deque[str] = deque(maxlen=TAIL)

    def emit(self, event: str, **fields: Any) -> None:
        self.last_event = event

    def close(self) -> None:
        pass


def place_of(progress: Progress | Silent) -> str:
    """Where this rank is, as text for operators."""
    after = f" after {progress.last_event}" if progress.last_event else ""
    return f"in phase {progress.phase}{after}"


def last_event_ms(attempts: Path, *, before: int) -> int | None:
    """Time (ms) of the last whole line of the newest attempt before this fence; None without one."""
    fences = [int(path.name) for path in attempts.glob("[0-9]*") if path.name.isdigit() and int(path.name) < before]
    if not fences:
        return None
    try:
        lines = (attempts / str(max(fences)) / "progress.jsonl").read_bytes().splitlines()
    except OSError:
        return None
    return next((time for line in reversed(lines) if (time := _time_of(line)) is not None), None)


def _time_of(line: bytes) -> int | None:
    try:
        return int(json.loads(line)["t"])
    except (ValueError, TypeError, KeyError):
        return None


def plain(value: Any) -> Any:
    """Turns NaN and infinities into text: JSON has none, but the alarm about them must be readable."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
