"""`serve`: composition root of the embedded policy server."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import torch
import uvicorn

from longhaul_trainer.serve.app import build_app
from longhaul_trainer.serve.registry import Registry
from longhaul_trainer.serve.scheduler import Scheduler


def serve(*, host: str, port: int, state_dir: Path, max_versions: int, threads: int, may_fault: bool = False) -> int:
    if may_fault and host not in ("127.0.0.1", "localhost", "::1"):
        print(f"Expected faults on loopback only [host={host}]", file=sys.stderr)
        return 64
    torch.set_num_threads(threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    state_dir.mkdir(parents=True, exist_ok=True)
    faults: set[str] = set()
    registry = Registry(state_dir=state_dir, max_versions=max_versions, device=device, faults=faults)
    # Before the port opens: a restarted server never answers 404 for a version that it is about to serve again.
    registry.restore()
    # uvicorn drains on SIGTERM, then raises it again: a stop that was asked for is a success.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    app = build_app(registry=registry, scheduler=Scheduler(), faults=faults if may_fault else None)
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=10)
    return 0
