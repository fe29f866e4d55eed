"""Low-rank adapters (LoRA, arXiv 2106.09685): W + (alpha/rank)·B·A with W frozen, A random and B zero at the start.

Adapters are ordinary parameters beside the weight that they adapt, so sharding and checkpoints need no special case.
Policies are published merged: a server loads a plain model.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from longhaul_trainer.parallel.shard import copy_whole, whole

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
NAMES = ("lora_a", "lora_b")


@dataclass(frozen=True)
class Lora:
    rank: int
    alpha: float
    targets: tuple[str, ...] = TARGETS


class LoraLinear(nn.Linear):
    lora_a: nn.Parameter
    lora_b: nn.Parameter
    scale: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) + self.scale * ((input @ self.lora_a.T) @ self.lora_b.T)


def is_adapter(name: str) -> bool:
    return name.rsplit(".", 1)[-1] in NAMES


def adopt_lora(model: Any, lora: Lora) -> None:
    """In place, before sharding: freezes every weight and adds A [rank, in] and B [out, rank] to the target layers.

    Raises ValueError if a target is not a plain linear layer.
    """
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, module in model.named_modules():
        if name.rsplit(".", 1)[-1] not in lora.targets:
            continue
        if type(module) is not nn.Linear:
            raise ValueError(f"Expected {name} to be a linear layer, got {type(module).__name__}")
        module.__class__ = LoraLinear
        weight = module.weight
        module.scale = lora.alpha / lora.rank  # pyright: ignore[reportArgumentType]
        module.lora_a = nn.Parameter(weight.new_empty(lora.rank, module.in_features))
        module.lora_b = nn.Parameter(weight.new_empty(module.out_features, lora.rank))


def fill_adapters(model: Any, *, seed: int) -> None:
    """A uniform within ±1/√in, B zero. Each A is seeded by its name, so that neither layout nor order changes it."""
    for name, parameter in model.named_parameters():
        if name.endswith("lora_b"):
            with torch.no_grad():
                parameter.zero_()
        elif name.endswith("lora_a"):
            dice = torch.Generator().manual_seed((seed << 32) + zlib.crc32(name.encode()))
            bound = 1 / math.sqrt(parameter.shape[1])
            copy_whole(parameter, torch.empty(parameter.shape).uniform_(-bound, bound, generator=dice))


def merge_adapters(model: Any) -> None:
    """In place: adds the adapters to their weights and sets B to zero. A collective on sharded models."""
    for module in model.modules():
        if isinstance(module, LoraLinear):
            left, right = module.lora_b.detach(), whole(module.lora_a).to(module.lora_a.device)
            local = left.to_local() if isinstance(left, DTensor) else left
            weight = module.weight.detach()
            target = weight.to_local() if isinstance(weight, DTensor) else weight
            target.add_(local @ right, alpha=module.scale)
            local.zero_()
