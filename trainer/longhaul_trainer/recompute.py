"""Activation checkpointing of decoder layers: which activations are recomputed, and where the kept ones are stored.

`full` keeps each layer's input. `save_attention` also keeps attention outputs, which at long context cost more to recompute than the
linear layers. `offload` moves the kept inputs to the host: `serial` between the layers, `overlapped` while they compute.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from longhaul_trainer.overlapped_offload import OverlappedOffload

MODES = ("none", "full", "save_attention")
OFFLOADS = ("none", "serial", "overlapped")
# Operators by namespace and name. Torch's version and the device decide which of them exist.
ATTENTION = (
    ("aten", "_scaled_dot_product_flash_attention_for_cpu"),
    ("aten", "_scaled_dot_product_flash_attention"),
    ("aten", "_scaled_dot_product_efficient_attention"),
    ("aten", "_scaled_dot_product_cudnn_attention"),
    ("torch_attn", "_varlen_attn"),
)


def recompute_layers(model: Any, *, mode: str, offload: str) -> None:
    """In place, before sharding: FSDP's hooks then wrap the recomputation and gather the weights for both passes."""
    if mode == "none":
        return
    contexts = partial(create_selective_checkpoint_contexts, _choose) if mode == "save_attention" else None
    hooks = _hooks(offload)
    for layer in model.base_model.layers:
        layer.forward = _recomputed(layer.forward, contexts=contexts, hooks=hooks)


def _hooks(offload: str) -> Callable[[], Any]:
    """One set of hooks for all layers: `overlapped` prefetches an input while the next layer's backward pass computes."""
    if offload == "none":
        return nullcontext
    if offload == "serial":
        return lambda: save_on_cpu(pin_memory=torch.cuda.is_available())
    return OverlappedOffload().hooks


def _recomputed(forward: Callable[..., Any], *, contexts: Any, hooks: Callable[[], Any]) -> Callable[..., Any]:
    options = {} if contexts is None else {"context_fn": contexts}

    def call(*arguments: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*arguments, **named)
        # Only the layer's inputs reach these hooks: inside the layer, checkpointing installs its own hooks on top.
        with hooks():
            return checkpoint(forward, *arguments, use_reentrant=False, preserve_rng_state=False, **options, **named)

    return call


def _kept() -> set[Any]:
    found = set()
    for space, name in ATTENTION:
        packet = getattr(getattr(torch.ops, space), name, None)
        if packet is not None:
            found |= {getattr(packet, overload) for overload in packet.overloads()}
    return found


def _choose(_: Any, operator: Any, *__: Any, **___: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operator in _kept() else CheckpointPolicy.PREFER_RECOMPUTE
