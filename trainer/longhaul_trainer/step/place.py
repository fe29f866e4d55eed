"""What a process must know about its launch, before it imports torch and when it ends."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import sys
from typing import NoReturn


def is_one_of_many() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


# Together they differ between two launches of one attempt: a site that requeues a batch job counts its restarts, and elsewhere torchrun
# has another run or port.
LAUNCH = ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_RESTART_COUNT")


def launch_id() -> str:
    """The same on all ranks of one launch, and on no rank of another one."""
    if "RANK" not in os.environ:
        return secrets.token_hex(8)
    return "/".join(os.environ.get(name, "") for name in LAUNCH)


def die_with_launcher() -> None:
    """On Linux, makes a rank die with torchrun, which gives each rank its own session: SIGKILL of its group does not reach them."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or not sys.platform.startswith("linux"):
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def end_process(code: int) -> NoReturn:
    """Exits with `code`. A rank skips the teardown of its interpreter.

    A gloo thread may still hold the tensors of the last collective. When it releases them after the teardown began, Python 3.11 ends the
    thread inside C++ code, and the rank dies with SIGABRT although its work is done.
    """
    if not is_one_of_many():
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
