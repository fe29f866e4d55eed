"""Policy servers with their imports done: each line on stdin is the command line of a server, which runs in a fork of this process.

It serves tests that need several servers, because importing torch, transformers and the web framework costs four CPU-seconds per start. A
fork shares no state with other servers and dies with this process. Tests of a server's start use a real process.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from functools import partial

from warm_fork import live

from longhaul_trainer.__main__ import main, set_environment
from longhaul_trainer.imports import heavy_imports


def serve() -> None:
    set_environment()
    with heavy_imports():
        import longhaul_trainer.serve.command  # noqa: F401
    # The kernel reaps ended forks, because this process waits for lines, not for servers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            live(partial(run, **json.loads(line)))
        print(json.dumps({"pid": pid}), flush=True)


def run(arguments: list[str]) -> int:
    # Linux, PR_SET_PDEATHSIG: a server must not outlive the test, however the test ends.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1):
        os.dup2(nothing, target)
    sys.argv = ["longhaul_trainer", *arguments]
    return main()


if __name__ == "__main__":
    serve()
