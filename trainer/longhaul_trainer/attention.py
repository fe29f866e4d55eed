"""Causal attention over packed rows: each row sees itself only, and no mask of S × S numbers is ever made.

Registered in transformers under NAME. The row lengths come as a keyword through the model's forward, so that a recomputation
in the backward pass sees those of its own micro-batch.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from longhaul_trainer.parallel.ulysses import heads_to_positions, positions_to_heads

try:  # Not in every torch that a GPU image carries.
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # pragma: no cover
    varlen_attn = None

NAME = "longhaul_packed"
# What we call it with; torch 2.10 has a form without the last two.
VARLEN_KEYWORDS = {"scale", "window_size", "enable_gqa"}


def takes_our_keywords(function: Any) -> bool:
    return function is not None and set(inspect.signature(function).parameters) >= VARLEN_KEYWORDS


HAS_VARLEN = takes_our_keywords(varlen_attn)


def packed_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    row_lengths: tuple[int, ...],
    row_ends: torch.Tensor,
    cp_group: dist.ProcessGroup | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """query: [1, H, S, D]; key, value: [1, K, S, D]; with cp_group S is this rank's part. Returns [1, S, H, D].

    row_lengths: of the whole sequence, adding up to S times the context parallel ranks. row_ends: their running sum from 0, int32 on
    query's device: made here, it would stop the host for the device in every layer and pass.
    """
    if cp_group is not None:
        query, key, value = (heads_to_positions(x, cp_group) for x in (query, key, value))
    if _has_varlen(query):
        found = _attend_varlen(query, key, value, scaling, row_ends, longest=max(row_lengths))
    else:
        found = _attend_rows(query, key, value, scaling, row_lengths)
    if cp_group is not None:
        found = positions_to_heads(found, cp_group)
    return found.transpose(1, 2), None


def _attend_rows(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None, row_lengths: tuple[int, ...]
) -> torch.Tensor:
    """One call a row: on CPUs there is no kernel for packed rows, and a block mask costs S² where rows cost Σ length²."""
    if len(row_lengths) == 1:
        return _attend(query, key, value, scaling)
    parts = zip(*(x.split(row_lengths, dim=2) for x in (query, key, value)), strict=True)
    return torch.cat([_attend(q, k, v, scaling) for q, k, v in parts], dim=2)


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None) -> torch.Tensor:
    is_grouped = query.shape[1] != key.shape[1]
    return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=is_grouped)


def _has_varlen(query: torch.Tensor) -> bool:
    return HAS_VARLEN and query.is_cuda and query.dtype in (torch.bfloat16, torch.float16)


def _attend_varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    row_ends: torch.Tensor,
    *,
    longest: int,
) -> torch.Tensor:
    assert varlen_attn is not None
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    found: Any = varlen_attn(
        q,
        k,
        v,
        row_ends,
        row_ends,
        longest,
        longest,
        scale=scaling,
        # (−1, 0): everything before, nothing after.
        window_size=(-1, 0),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return found.transpose(0, 1)[None]


AttentionInterface.register(NAME, packed_attention)
