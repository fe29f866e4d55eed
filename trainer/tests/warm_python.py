"""An interpreter whose imports are done: each line on stdin is a call of `python -m`, which a fork of this process runs.

For tests of copies of the trainer: torch and transformers cost five CPU-seconds at each start. The arguments name the modules to import,
none of the trainer's own, so a call has those of its copy. Calls run one after another; the answer to each is its exit code.
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
    """`arguments` as behind `-m`; the output goes to the end of `log`."""
    # Linux, PR_SET_PDEATHSIG: a call that hangs ends with this process.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.chdir(directory)
    # In front lie the folder that this process was started in, and its own PYTHONPATH: another copy of the trainer.
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
    """As the interpreter ends with it."""
    if code is None:
        return 0
    return int(code) if isinstance(code, int) else 1


if __name__ == "__main__":
    serve()
