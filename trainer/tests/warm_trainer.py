"""A trainer with its imports done: each line on stdin names a job, which a fork of this process runs.

It serves tests of what a job computes, because importing torch and transformers costs five CPU-seconds per start. A fork shares no state
with other jobs and has its own session, like a launched trainer. Tests of start, death and re-attachment use a real process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

from warm_fork import live

from longhaul_trainer.__main__ import set_environment
from longhaul_trainer.imports import heavy_imports


def main() -> None:
    set_environment()
    with heavy_imports():
        import longhaul_trainer.step.job  # noqa: F401
    # The kernel reaps ended forks, because this process waits for lines, not for jobs.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            live(partial(run, Path(job["spec"]), Path(job["directory"])))
        print(json.dumps({"pid": pid}), flush=True)


def run(spec: Path, directory: Path) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(directory)
    log = os.open("stdout.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    from longhaul_trainer.step.command import step

    return step(spec, dry_run=False)


if __name__ == "__main__":
    main()
