"""The life of a fork of a process whose imports are done."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn


def live(work: Callable[[], int]) -> NoReturn:
    """The rest of the fork's life: `work` and its exit code, without the clean-up of the process that it was forked from."""
    code = 1
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
