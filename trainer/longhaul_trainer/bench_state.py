"""Measures saving a training state and reading it back, through the code that jobs use."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from longhaul_trainer.directory import mark_committed, open_sealed, write_manifest
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.step.state import (
    TrainerState,
    load_optimizer,
    load_weights,
    shard_name,
    take_snapshot,
)


def measure_state(directory: Path, *, model: Any, optimizer: torch.optim.Optimizer, ranks: Ranks) -> dict[str, Any]:
    """Bytes, and seconds of each part. Works below `directory`, whose disk is measured, and removes its files afterwards.

    copy: to the host; training waits for this part only. write: files, hashes, manifest, marker. verify: hashes. read: into the model.
    """
    state = TrainerState(global_step=0, done=0, metrics=[], alarms=[])
    with tempfile.TemporaryDirectory(dir=directory, prefix="longhaul-bench-") as scratch:
        target = Path(scratch) / "state"
        target.mkdir()
        at = [time.perf_counter()]
        snapshot = take_snapshot(model=model, optimizer=optimizer, state=state, facts={})
        at.append(time.perf_counter())
        snapshot.write_shard(target / shard_name(ranks))
        snapshot.write_facts(target)
        mark_committed(target, write_manifest(target, kind="inner", facts={}))
        at.append(time.perf_counter())
        sealed = open_sealed(target)
        at.append(time.perf_counter())
        load_weights(target, model=model)
        load_optimizer(target, model=model, optimizer=optimizer)
        at.append(time.perf_counter())
    seconds = {
        name: round(b - a, 4) for name, a, b in zip(("copy", "write", "verify", "read"), at, at[1:], strict=False)
    }
    return {"bytes": sum(entry["bytes"] for entry in sealed.manifest["files"]), "seconds": seconds}
