"""The trainer's command line with its imports done: each line on stdin is a call, which a fork of this process runs.

A simulation needs its own process, because the fake group is the default group of the process, and so does a measurement of the
process's peak memory. Importing torch and transformers would cost five CPU-seconds per call. The answer to a line is the fork's exit code.
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
        import longhaul_trainer.bench
        import longhaul_trainer.simulate  # noqa: F401
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            live(partial(run, **json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def run(arguments: list[str], output: str, errors: str) -> int:
    """`output` and `errors`: files for stdout and stderr."""
    for number, path in ((1, output), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
    sys.argv = ["longhaul_trainer", *arguments]
    return main()


if __name__ == "__main__":
    serve()
