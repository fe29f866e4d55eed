"""`simulate` whose imports are done: each line on stdin is a list of its options, for a fork of this process.

Each simulation needs a process of its own, because the fake group is the process's default one, and torch and transformers cost five
CPU-seconds at each start. The fork prints what the command prints; the line behind it is the fork's exit code.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial

from warm_fork import live

from longhaul_trainer.__main__ import main, set_environment
from longhaul_trainer.imports import heavy_imports


def serve() -> None:
    set_environment()
    with heavy_imports():
        import longhaul_trainer.simulate  # noqa: F401
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            live(partial(simulate, json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def simulate(options: list[str]) -> int:
    sys.argv = ["longhaul_trainer", "simulate", *options]
    return main()


if __name__ == "__main__":
    serve()
