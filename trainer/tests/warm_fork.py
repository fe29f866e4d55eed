"""Runs work in a fork of a process whose imports are done."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn


def live(work: Callable[[], int]) -> NoReturn:
    """Runs `work` and exits with its code, without the clean-up of the parent process."""
    code = 1
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
