"""Context parallelism by heads (DeepSpeed-Ulysses, arXiv 2309.14509): a rank holds part of the positions of all heads outside
attention, and all positions of part of the heads inside it.

Heads and positions change places by one all-to-all each way, so attention itself is the ordinary one over whole rows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class _Exchange(torch.autograd.Function):
    """[cp, …] by destination → [cp, …] by source; its gradient travels the same way back."""

    @staticmethod
    def forward(ctx: Any, parts: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        ctx.group = group
        received = torch.empty_like(parts)
        dist.all_to_all_single(received, parts, group=group)
        return received

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        sent = gradients[0].contiguous()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=ctx.group)
        return received, None


def heads_to_positions(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """[1, H, S/cp, D] (all heads, my positions) → [1, H/cp, S, D] (my heads, all positions). Replicates scarce KV heads."""
    cp = dist.get_world_size(group)
    _, heads, length, depth = x.shape
    if heads < cp:
        x, heads = x.repeat_interleave(cp // heads, dim=1), cp
    parts = x.reshape(cp, heads // cp, length, depth).contiguous()
    received = _Exchange.apply(parts, group)
    return received.transpose(0, 1).reshape(1, heads // cp, cp * length, depth)


def positions_to_heads(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """[1, H/cp, S, D] → [1, H, S/cp, D]: the way back."""
    cp = dist.get_world_size(group)
    _, heads, length, depth = x.shape
    parts = x.reshape(heads, cp, length // cp, depth).transpose(0, 1).contiguous()
    received = _Exchange.apply(parts, group)
    return received.reshape(1, cp * heads, length // cp, depth)
