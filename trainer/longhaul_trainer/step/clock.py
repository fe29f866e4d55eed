"""Milliseconds since 1970, the pipeline's unit of time."""

from __future__ import annotations

import time


def now_ms() -> int:
    return time.time_ns() // 1_000_000
