"""`serve`: composition root of the embedded policy server."""

from __future__ import annotations

import ipaddress
import os
import signal
import sys
from pathlib import Path

import torch
import uvicorn

from longhaul_trainer.serve.app import build_app
from longhaul_trainer.serve.registry import Registry
from longhaul_trainer.serve.scheduler import Scheduler


def serve(
    *,
    host: str,
    port: int,
    state_dir: Path,
    max_versions: int,
    threads: int,
    may_fault: bool = False,
    api_key_variable: str | None = None,
) -> int:
    if may_fault and not is_loopback(host):
        print(f"Expected faults on loopback only [host={host}]", file=sys.stderr)
        return 64
    api_key = None if api_key_variable is None else os.environ.get(api_key_variable, "")
    if problem := _find_open_door(host=host, api_key_variable=api_key_variable, api_key=api_key):
        print(problem, file=sys.stderr)
        return 64
    torch.set_num_threads(threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    state_dir.mkdir(parents=True, exist_ok=True)
    faults: set[str] = set()
    registry = Registry(state_dir=state_dir, max_versions=max_versions, device=device, faults=faults)
    # Before the port opens, so that a restarted server never answers 404 for a version that it restores.
    registry.restore()
    # uvicorn drains on SIGTERM, then raises it again. A requested stop exits with 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    app = build_app(registry=registry, scheduler=Scheduler(), faults=faults if may_fault else None, api_key=api_key)
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=10)
    return 0


def is_loopback(host: str) -> bool:
    """Whether `host` is certainly a loopback address. Other names may resolve to any address, and an empty one means all interfaces."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _find_open_door(*, host: str, api_key_variable: str | None, api_key: str | None) -> str | None:
    """The problem with key or address, or None. Without a key, every client that reaches the server could make it load directories and
    occupy its model thread."""
    if api_key == "":
        return f"Expected a key in the variable {api_key_variable}, found none"
    if api_key is None and not is_loopback(host):
        return (
            f"Expected a loopback address or a key [host={host}]: add --api-key-variable LONGHAUL_POLICY_API_KEY and set"
            " that variable here and for the workers"
        )
    return None
