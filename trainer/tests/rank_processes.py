"""Runs a function on several ranks over gloo, each in its own process, forked from a process that has already imported torch."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from longhaul_trainer.parallel.ranks import Ranks, close_ranks, open_ranks

TIMEOUT_S = 180
_context = multiprocessing.get_context("forkserver")
# Python 3.11's fork server searches preloaded modules on its own path only, and silently ignores missing ones.
_context.set_forkserver_preload(["gradient_case", "tiny_policy"])
_paths = os.pathsep.join(str(path) for path in (Path(__file__).parent, Path(__file__).parent.parent))


def run_ranks(work: Callable[..., Any], *arguments: Any, world: int, cp: int = 1) -> list[Any]:
    """Runs work(ranks, *arguments) on each rank. Returns the results in rank order. An exception in a rank fails the caller."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pipes = [_context.Pipe(duplex=False) for _ in range(world)]
    processes = [
        _context.Process(target=_rank, args=(sender, rank, world, cp, port, work, arguments), daemon=True)
        for rank, (_, sender) in enumerate(pipes)
    ]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", _paths)
        for process in processes:
            process.start()
    found = []
    try:
        for rank, (receiver, sender) in enumerate(pipes):
            sender.close()
            assert receiver.poll(TIMEOUT_S), f"rank {rank} gave no answer within {TIMEOUT_S} s"
            found.append(pickle.loads(receiver.recv_bytes()))
    finally:
        for process in processes:
            process.kill()
            process.join()
    for rank, (result, error) in enumerate(found):
        assert error is None, f"rank {rank}: {error}"
        found[rank] = result
    return found


def _rank(sender: Any, rank: int, world: int, cp: int, port: int, work: Callable[..., Any], arguments: Any) -> None:
    torch.set_num_threads(1)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    try:
        ranks: Ranks = open_ranks(device="cpu", world=world, cp=cp, timeout_s=TIMEOUT_S)
        result = work(ranks, *arguments)
        close_ranks(ranks)
        answer = (result, None)
    except BaseException:
        answer = (None, traceback.format_exc())
    # Plain bytes: torch's own pickling needs the sender to be alive when the receiver reads.
    sender.send_bytes(pickle.dumps(answer))
