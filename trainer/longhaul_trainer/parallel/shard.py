"""Shards parameters and optimizer states over all ranks with FSDP2, and gathers full tensors for files.

Gradients are summed, not averaged: the loss is already divided by a count of the whole mini-batch over all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from longhaul_trainer.parallel.ranks import Ranks


def shard_model(root: nn.Module, model: Any, ranks: Ranks, *, compute: torch.dtype) -> None:
    """In place; a no-op without a mesh. `root`: the module that the trainer calls; `model`: the Hugging Face model in it.

    Master weights and gradients stay fp32; `compute` is the dtype of the forward and backward pass. Embedding and head are separate
    units. A tied pair belongs to the root, which stays gathered from the forward to the backward pass.
    """
    if ranks.mesh is None:
        return
    policy = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32, cast_forward_inputs=False)
    units: list[nn.Module] = list(model.base_model.layers)
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if embedding.weight is not head.weight:
        units += [embedding, head]
    for unit in [*units, root]:
        fully_shard(unit, mesh=ranks.mesh, mp_policy=policy)
    for unit in root.modules():
        if isinstance(unit, FSDPModule):
            # Gloo has no pre-multiplied sum and refuses any divide factor unless the sum is forced.
            unit.set_force_sum_reduction_for_comms(True)
            unit.set_gradient_divide_factor(1.0)


def local_rows(parameter: DTensor) -> slice:
    """Rows of the full tensor on this rank. FSDP cuts the first dimension into equal parts; later parts may be shorter or empty.

    Raises ValueError for any other sharding.
    """
    if len(parameter.placements) != 1 or not parameter.placements[0].is_shard(0):
        raise ValueError(f"Expected one sharded dimension, the first, got {parameter.placements}")
    mesh = parameter.device_mesh
    height = -(-parameter.shape[0] // mesh.size())
    start = min(mesh.get_local_rank() * height, parameter.shape[0])
    stop = min(start + height, parameter.shape[0])
    if parameter.to_local().shape[0] != stop - start:
        raise ValueError(
            f"Expected {stop - start} local rows of {parameter.shape[0]}, got {parameter.to_local().shape[0]}"
        )
    return slice(start, stop)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The full tensor on the CPU. A collective for sharded tensors: every rank must call it, in the same order."""
    return _gathered(tensor).cpu().contiguous()


def _gathered(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    return plain.full_tensor() if isinstance(plain, DTensor) else plain


def whole_tensors(named: Iterator[tuple[str, torch.Tensor]], ranks: Ranks) -> dict[str, torch.Tensor]:
    """All full tensors on the first rank, an empty dict on the others. A collective."""
    found: dict[str, torch.Tensor] = {}
    for name, tensor in named:
        full = _gathered(tensor)
        if ranks.is_first:
            found[name] = full.cpu().contiguous()
    return found


def like(full: torch.Tensor, example: torch.Tensor) -> torch.Tensor:
    """Moves a full CPU tensor, which every rank holds, to the device and sharding of `example`. No communication."""
    if not isinstance(example, DTensor):
        return full.to(example.device)
    return distribute_tensor(full.to(example.device), example.device_mesh, example.placements, src_data_rank=None)


def copy_whole(target: torch.Tensor, full: torch.Tensor) -> None:
    """Writes a full CPU tensor, which every rank holds, into a parameter, sharded or not."""
    with torch.no_grad():
        target.copy_(like(full, target))
