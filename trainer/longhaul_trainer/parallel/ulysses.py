"""Context parallelism by heads (DeepSpeed-Ulysses, arXiv 2309.14509).

Outside attention a rank holds a slice of the positions with all heads, inside attention all positions with a slice of the heads. One
all-to-all each way switches between the two, so attention itself runs unchanged over full rows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class _Exchange(torch.autograd.Function):
    """All-to-all: [cp, …] by destination → [cp, …] by source. The gradient takes the reverse path, also an all-to-all."""

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
    """[1, H, S/cp, D] (all heads, own positions) → [1, H/cp, S, D] (own heads, all positions). Repeats KV heads if H < cp."""
    cp = dist.get_world_size(group)
    _, heads, length, depth = x.shape
    if heads < cp:
        x, heads = x.repeat_interleave(cp // heads, dim=1), cp
    parts = x.reshape(cp, heads // cp, length, depth).contiguous()
    received = _Exchange.apply(parts, group)
    return received.transpose(0, 1).reshape(1, heads // cp, cp * length, depth)


def positions_to_heads(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """The inverse: [1, H/cp, S, D] → [1, H, S/cp, D]."""
    cp = dist.get_world_size(group)
    _, heads, length, depth = x.shape
    parts = x.reshape(heads, cp, length // cp, depth).transpose(0, 1).contiguous()
    received = _Exchange.apply(parts, group)
    return received.reshape(1, cp * heads, length // cp, depth)
