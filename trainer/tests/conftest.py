from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from job_files import TRAINER, die_with_parent
from tiny_policy import write_tiny_policy

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policies") / "base"
    write_tiny_policy(path)
    return path


@pytest.fixture(scope="session")
def other_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policies") / "other"
    write_tiny_policy(path, seed=1)
    return path


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def forked_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """Runs the trainer's command line. Each call runs in a fork of one process that has already imported everything."""
    environment = {**os.environ, "PYTHONPATH": f"{TRAINER}:{TRAINER / 'tests'}", "OMP_NUM_THREADS": "1"}
    folder = tmp_path_factory.mktemp("commands")
    with subprocess.Popen(
        [sys.executable, "-m", "warm_command"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=die_with_parent,
    ) as warm:
        assert warm.stdin is not None
        assert warm.stdout is not None
        calls, answers = warm.stdin, warm.stdout

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            files = folder / "output", folder / "errors"
            call = {"arguments": arguments, "output": str(files[0]), "errors": str(files[1])}
            calls.write(json.dumps(call) + "\n")
            calls.flush()
            code = int(answers.readline())
            return subprocess.CompletedProcess(arguments, code, *(file.read_text() for file in files))

        yield run
        calls.close()
