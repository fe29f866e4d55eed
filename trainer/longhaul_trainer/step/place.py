"""What a process that torchrun started must know before torch is loaded."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def is_one_of_many() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def die_with_launcher() -> None:
    """torchrun gives each rank a session of its own: a KILL to torchrun's group does not reach them, its death must (Linux)."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or not sys.platform.startswith("linux"):
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
