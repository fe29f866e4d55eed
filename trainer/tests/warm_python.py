"""An interpreter with its imports done: each line on stdin is a call of `python -m`, which a fork of this process runs.

It serves tests of copies of the trainer, because importing torch and transformers costs five CPU-seconds per start. The arguments name
the modules to import. None is the trainer's own, so a call imports those of its copy. Calls run one after another; the answer to each is its
exit code.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import sys
from functools import partial
from typing import Any

from warm_fork import live


def serve() -> None:
    gc.disable()
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            live(partial(run, **json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def run(arguments: list[str], directory: str, environment: dict[str, str], log: str) -> int:
    """`arguments`: those after `-m`; the output is appended to `log`."""
    # Linux, PR_SET_PDEATHSIG: a call that hangs dies with its parent.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.chdir(directory)
    # The first entries are the start directory and PYTHONPATH of this process, another copy of the trainer.
    inherited = 1 + len(os.environ["PYTHONPATH"].split(os.pathsep))
    sys.path[:inherited] = [directory, *environment["PYTHONPATH"].split(os.pathsep)]
    os.environ.clear()
    os.environ.update(environment)
    del sys.modules["warm_fork"]
    sys.argv = arguments
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return status_of(end.code)
    return 0


def status_of(code: Any) -> int:
    """The interpreter's exit status for a SystemExit code."""
    if code is None:
        return 0
    return int(code) if isinstance(code, int) else 1


if __name__ == "__main__":
    serve()
