"""`simulate` whose imports are done: each line on stdin is a list of its options, for a fork of this process.

Each simulation needs a process of its own, because the fake group is the process's default one, and torch and transformers cost five
CPU-seconds at each start. The fork prints what the command prints; the line behind it is the fork's exit code.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from longhaul_trainer.__main__ import main, set_environment
from longhaul_trainer.imports import heavy_imports


def serve() -> None:
    set_environment()
    with heavy_imports():
        import longhaul_trainer.simulate  # noqa: F401
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def run(options: list[str]) -> None:
    """The rest of the fork's life."""
    code = 1
    try:
        sys.argv = ["longhaul_trainer", "simulate", *options]
        code = main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
