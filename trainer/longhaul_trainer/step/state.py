"""Checkpoint content: fp32 weights, AdamW state, random state and progress of the run. Tensors have the model's own names."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from longhaul_trainer.config import Config
from longhaul_trainer.directory import json_bytes, share
from longhaul_trainer.failures import INPUT_UNUSABLE, JobError, reading_code
from longhaul_trainer.lean_adamw import LeanAdamW
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.trainable import fill_weights
from longhaul_trainer.weight_files import WeightFiles, prefixed_weights

SCHEMA = "longhaul.trainer-state/1"
WEIGHTS = "state.safetensors"
STATE = "trainer_state.json"
HF = "hf"
METRICS = "metrics.jsonl"
MOMENTS = ("exp_avg", "exp_avg_sq")
RANDOM = "rng."


@dataclass
class TrainerState:
    """`done`: optimizer steps of this job; `global_step`: optimizer steps of the whole run."""

    global_step: int
    done: int
    metrics: list[dict[str, Any]]
    alarms: list[dict[str, Any]]


def build_optimizer(model: Any, config: Config, *, host: bool = False) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices only, not on norms and biases. Tied embeddings are one matrix; frozen weights are left out.

    `host`: store the moments on the host.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim >= 2]
    others = [p for p in trained if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": config.optimizer.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    settings = config.optimizer
    if host or settings.states != "float32":
        return LeanAdamW(
            groups,
            lr=settings.lr,
            betas=settings.betas,
            eps=settings.eps,
            states=getattr(torch, settings.states),
            host=host,
            seed=config.seed,
        )
    # The fused update works in place. Torch's default on GPUs, `foreach`, holds all denominators at once, 4 bytes per parameter.
    is_fused = bool(trained) and all(p.device.type == "cuda" for p in trained)
    return torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=is_fused)


@dataclass(frozen=True)
class Snapshot:
    """A copy of the state on the host, independent of the model in training: this rank's rows of weights and moments, its random
    state, and the files that the first rank writes. With one process it is the complete state."""

    tensors: dict[str, torch.Tensor]
    files: dict[str, bytes]
    # The optimizer's own count of updates, over all jobs that carried it.
    updates: int

    def sha256(self) -> str:
        """Hash of weights and moments only, by name, dtype, shape and bytes. Random state, run and file layout do not matter."""
        total = hashlib.sha256()
        for name in sorted(name for name in self.tensors if not name.startswith(RANDOM)):
            tensor = self.tensors[name]
            total.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
            total.update(tensor.view(torch.uint8).numpy().data)
        return total.hexdigest()

    def write_shard(self, path: Path) -> None:
        save_file(self.tensors, path)
        share(path)

    def write_facts(self, directory: Path) -> None:
        for name, data in self.files.items():
            (directory / name).write_bytes(data)


class HostCopies:
    """Host memory of snapshots. Each snapshot reuses the memory of the previous one, which is written by then.

    The memory of copies from a GPU is pinned: to pageable memory the driver copies through its own buffer, at a fraction of the bus
    bandwidth.
    """

    def __init__(self) -> None:
        self._places: dict[str, torch.Tensor] = {}
        self._from_gpu = False

    def copy(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Copies this rank's rows. A copy from a GPU is complete when `wait` returns."""
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        place = self._places.get(name)
        if place is None or place.shape != local.shape or place.dtype != local.dtype:
            place = self._places[name] = _host_place(local)
        self._from_gpu |= local.is_cuda
        return place.copy_(local, non_blocking=local.is_cuda)

    def wait(self) -> None:
        if self._from_gpu:
            torch.cuda.synchronize()

    def clear(self) -> None:
        self._places.clear()


def _host_place(local: torch.Tensor) -> torch.Tensor:
    try:
        return torch.empty(local.shape, dtype=local.dtype, pin_memory=local.is_cuda)
    except RuntimeError:
        # No more memory can be pinned: fall back to a slow copy.
        return torch.empty(local.shape, dtype=local.dtype)


def take_snapshot(
    *,
    model: Any,
    optimizer: torch.optim.Optimizer,
    state: TrainerState,
    facts: dict,
    copies: HostCopies | None = None,
    frozen: bool = True,
) -> Snapshot:
    """`copies`: host memory to reuse; overwrites the previous snapshot. `frozen`: include weights that are not trained."""
    copies = copies or HostCopies()
    tensors: dict[str, torch.Tensor] = {"rng.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["rng.cuda"] = torch.cuda.get_rng_state()
    for name, parameter in model.named_parameters():
        if frozen or parameter.requires_grad:
            tensors[f"weight.{name}"] = copies.copy(f"weight.{name}", parameter.detach())
        if slots := optimizer.state.get(parameter):
            for moment in MOMENTS:
                tensors[f"{moment}.{name}"] = copies.copy(f"{moment}.{name}", slots[moment])
    copies.wait()
    updates = max((int(slots["step"]) for slots in optimizer.state.values()), default=0)
    about = {
        "schema": SCHEMA,
        "global_step": state.global_step,
        "done": state.done,
        "optimizer_updates": updates,
        "alarms": state.alarms,
        **facts,
    }
    lines = [json.dumps(entry, sort_keys=True) for entry in state.metrics]
    metrics = "".join(f"{line}\n" for line in lines).encode()
    return Snapshot(tensors=tensors, files={STATE: json_bytes(about), METRICS: metrics}, updates=updates)


def shard_name(ranks: Ranks) -> str:
    return WEIGHTS if ranks.world == 1 else f"state-{ranks.rank:05d}-of-{ranks.world:05d}.safetensors"


def shard_files(directory: Path) -> list[Path]:
    """Shards of a state, in rank order. Raises JobError 66 if one is missing."""
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    found = sorted(directory.glob("state-*-of-*.safetensors"))
    if not found or len(found) != int(found[0].stem.rpartition("-")[2]):
        raise JobError(INPUT_UNUSABLE, f"Expected every shard of the state in {directory}, found {len(found)}")
    return found


def read_trainer_state(directory: Path) -> dict[str, Any]:
    try:
        value = json.loads((directory / STATE).read_text())
    except (OSError, ValueError) as error:
        raise JobError(reading_code(error, INPUT_UNUSABLE), f"Cannot read {directory / STATE}: {error}") from error
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise JobError(INPUT_UNUSABLE, f"Expected schema {SCHEMA} in {directory / STATE}")
    return value


def checkpoint_weights(directory: Path) -> WeightFiles:
    """Weights of a checkpoint of any layout: a rank reads its rows from the shards that hold them."""
    return prefixed_weights(shard_files(directory), "weight.")


def load_weights(directory: Path, *, model: Any, keeps_frozen: bool = False) -> None:
    """Loads a checkpoint of the same model. `keeps_frozen`: frozen weights may be missing from it; the model keeps its own.

    Raises JobError 66.
    """
    try:
        fill_weights(model, checkpoint_weights(directory), keeps_frozen=keeps_frozen)
    except ValueError as error:
        raise JobError(INPUT_UNUSABLE, f"Cannot load {directory}: {error}") from error


def load_optimizer(directory: Path, *, model: Any, optimizer: torch.optim.Optimizer) -> None:
    updates = read_trainer_state(directory)["optimizer_updates"]
    place = optimizer.place_state if isinstance(optimizer, LeanAdamW) else _beside
    stored = prefixed_weights(shard_files(directory), "")
    with stored.reading():
        for name, parameter in model.named_parameters():
            if f"exp_avg.{name}" not in stored.places:
                continue
            slots = {moment: place(parameter, stored.read_like(f"{moment}.{name}", parameter)) for moment in MOMENTS}
            # The fused update keeps its counter on the device.
            device = parameter.device if optimizer.defaults.get("fused") else "cpu"
            optimizer.state[parameter] = {"step": torch.tensor(float(updates), device=device), **slots}


def _beside(parameter: torch.Tensor, moment: torch.Tensor) -> torch.Tensor:
    """Places a moment for torch's AdamW: fp32, on the parameter's device, sharded like it."""
    local = moment.to(parameter.device, torch.float32)
    if not isinstance(parameter, DTensor):
        return local
    return DTensor.from_local(
        local, parameter.device_mesh, parameter.placements, shape=parameter.shape, stride=parameter.stride()
    )


def restore_random_state(directory: Path, ranks: Ranks) -> None:
    """Restores this rank's random state if its shard exists. With another number of ranks the job's seed stays in effect."""
    path = directory / shard_name(ranks)
    if not path.is_file():
        return
    with safe_open(path, framework="pt") as file:
        torch.set_rng_state(file.get_tensor("rng.cpu"))
        if "rng.cuda" in file.keys() and torch.cuda.is_available():  # noqa: SIM118
            torch.cuda.set_rng_state(file.get_tensor("rng.cuda"))


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / METRICS).read_text().splitlines()]
