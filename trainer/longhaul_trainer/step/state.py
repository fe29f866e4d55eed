"""Checkpoint content: fp32 weights, AdamW state, random state and where the run stands. Names are the model's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from longhaul_trainer.config import Config
from longhaul_trainer.directory import json_bytes
from longhaul_trainer.failures import INPUT_UNUSABLE, JobError
from longhaul_trainer.weight_files import WeightFiles, prefixed_weights

SCHEMA = "longhaul.trainer-state/1"
WEIGHTS = "state.safetensors"
STATE = "trainer_state.json"
HF = "hf"
METRICS = "metrics.jsonl"


@dataclass
class TrainerState:
    """`done` counts optimizer steps of this job, `global_step` those of the whole run."""

    global_step: int
    done: int
    metrics: list[dict[str, Any]]
    alarms: list[dict[str, Any]]


def build_optimizer(model: Any, config: Config) -> torch.optim.AdamW:
    """Matrices decay, norms and biases do not; tied embeddings are one matrix."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": config.optimizer.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    settings = config.optimizer
    return torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps)


def write_state(directory: Path, *, model: Any, optimizer: torch.optim.AdamW, state: TrainerState, facts: dict) -> None:
    tensors: dict[str, torch.Tensor] = {"rng.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["rng.cuda"] = torch.cuda.get_rng_state()
    updates = 0
    for name, parameter in model.named_parameters():
        tensors[f"weight.{name}"] = parameter.detach().cpu().contiguous()
        if slots := optimizer.state.get(parameter):
            updates = int(slots["step"])
            tensors[f"exp_avg.{name}"] = slots["exp_avg"].cpu().contiguous()
            tensors[f"exp_avg_sq.{name}"] = slots["exp_avg_sq"].cpu().contiguous()
    save_file(tensors, directory / WEIGHTS)
    (directory / STATE).write_bytes(
        json_bytes(
            {
                "schema": SCHEMA,
                "global_step": state.global_step,
                "done": state.done,
                "optimizer_updates": updates,
                "alarms": state.alarms,
                **facts,
            }
        )
    )
    lines = [json.dumps(entry, sort_keys=True) for entry in state.metrics]
    (directory / METRICS).write_text("".join(f"{line}\n" for line in lines))


def read_trainer_state(directory: Path) -> dict[str, Any]:
    try:
        value = json.loads((directory / STATE).read_text())
    except (OSError, ValueError) as error:
        raise JobError(INPUT_UNUSABLE, f"Cannot read {directory / STATE}: {error}") from error
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise JobError(INPUT_UNUSABLE, f"Expected schema {SCHEMA} in {directory / STATE}")
    return value


def checkpoint_weights(directory: Path) -> WeightFiles:
    return prefixed_weights(directory / WEIGHTS, "weight.")


def load_weights(directory: Path, *, model: Any) -> dict[str, torch.Tensor]:
    """Copies the weights into the model. Returns every tensor of the checkpoint, for the optimizer."""
    tensors = load_file(directory / WEIGHTS)
    names = {name for name, _ in model.named_parameters()}
    stored = {name.removeprefix("weight.") for name in tensors if name.startswith("weight.")}
    if names != stored:
        odd = sorted(names ^ stored)[:3]
        raise JobError(INPUT_UNUSABLE, f"Expected the weights of the model in {directory}, found a difference at {odd}")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"weight.{name}"])
    return tensors


def load_optimizer(
    directory: Path, tensors: dict[str, torch.Tensor], *, model: Any, optimizer: torch.optim.AdamW
) -> None:
    updates = read_trainer_state(directory)["optimizer_updates"]
    for name, parameter in model.named_parameters():
        if f"exp_avg.{name}" not in tensors:
            continue
        optimizer.state[parameter] = {
            "step": torch.tensor(float(updates)),
            "exp_avg": tensors[f"exp_avg.{name}"].to(parameter.device),
            "exp_avg_sq": tensors[f"exp_avg_sq.{name}"].to(parameter.device),
        }


def restore_random_state(tensors: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(tensors["rng.cpu"])
    if "rng.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["rng.cuda"])


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / METRICS).read_text().splitlines()]
