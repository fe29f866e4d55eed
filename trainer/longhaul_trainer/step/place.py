"""What a process must know about its launch before it imports torch."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def is_one_of_many() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def die_with_launcher() -> None:
    """On Linux, makes a rank die with torchrun, which gives each rank its own session: SIGKILL of its group does not reach them."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or not sys.platform.startswith("linux"):
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
