"""Causal attention over packed rows: a token attends only to its own row, and no S × S mask is built.

Registered in transformers under NAME. Row lengths are passed as keywords through the model's forward, so recomputation in the
backward pass gets the lengths of its own micro-batch.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import attention as torch_attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from longhaul_trainer.failures import UNAVAILABLE, JobError
from longhaul_trainer.parallel.ulysses import heads_to_positions, positions_to_heads

try:  # GPU images may carry a torch without it.
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # pragma: no cover
    varlen_attn = None

NAME = "longhaul_packed"
AUTO = "auto"
# `auto`: on a GPU, one call per long row with the fastest single-row kernel and one call for adjacent short rows.
# `varlen`: one call for all rows. `rows`: one call per row, which CPUs always do. `fa3`: like `auto`, with FlashAttention-3.
FA3 = "fa3"
BACKENDS = (AUTO, FA3, "varlen", "rows")
# Tokens from which a single row fills a GPU.
LONG_ROW = 8192
# In order of preference. Every GPU with bf16 has the second.
LONG_KERNELS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]
# FlashAttention-3 replaces torch's own flash kernels under this name.
FA3_KERNELS = [SDPBackend.FLASH_ATTENTION]
# Major compute capability that FlashAttention-3 requires: Hopper.
FA3_CAPABILITY = 9
# Keywords that we pass to varlen_attn. torch 2.10 lacks the last two.
VARLEN_KEYWORDS = {"scale", "window_size", "enable_gqa"}


def takes_our_keywords(function: Any) -> bool:
    return function is not None and set(inspect.signature(function).parameters) >= VARLEN_KEYWORDS


HAS_VARLEN = takes_our_keywords(varlen_attn)


def prepare_attention(backend: str, *, device: torch.device, compute: torch.dtype) -> None:
    """With `backend` `fa3`, replaces torch's flash kernels by FlashAttention-3 for this process. Otherwise does nothing.

    Raises JobError 69 if device, dtype, torch or the package `flash_attn_interface` does not allow it. Falling back to another
    kernel would make measurements wrong.
    """
    if backend != FA3:
        return
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    if capability is None or capability[0] != FA3_CAPABILITY:
        found = "a CPU" if capability is None else f"one of {capability[0]}.{capability[1]}"
        raise _no_fa3(f"a GPU of compute capability {FA3_CAPABILITY}.x (Hopper)", found)
    if compute not in (torch.bfloat16, torch.float16):
        raise _no_fa3("compute in bf16", str(compute).removeprefix("torch."))
    activate = getattr(torch_attention, "activate_flash_attention_impl", None)
    if activate is None or not HAS_VARLEN:
        raise _no_fa3("a torch that lets flash kernels be replaced", torch.__version__)
    try:
        activate("FA3")
    except (ImportError, RuntimeError, ValueError) as error:
        raise _no_fa3("the package flash_attn_interface", str(error)) from error


def _no_fa3(expected: str, found: str) -> JobError:
    return JobError(UNAVAILABLE, f"Expected {expected} for attention {FA3}, found: {found}")


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
    backend: str = AUTO,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """query: [1, H, S, D]; key, value: [1, K, S, D]; with cp_group, S is this rank's slice. Returns [1, S, H, D].

    row_lengths: of the whole sequence; they sum to S times the number of context parallel ranks. row_ends: cumulative sum of
    row_lengths, starting at 0, int32 on query's device. The caller builds it once: building it here would synchronise host and device
    in every layer and pass.
    """
    if cp_group is not None:
        query, key, value = (heads_to_positions(x, cp_group) for x in (query, key, value))
    if _has_varlen(query) and backend != "rows":
        found = _attend_together(query, key, value, scaling, row_lengths, row_ends, backend)
    else:
        found = _attend_rows(query, key, value, scaling, row_lengths)
    if cp_group is not None:
        found = positions_to_heads(found, cp_group)
    return found.transpose(1, 2), None


def _attend_together(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    row_lengths: tuple[int, ...],
    row_ends: torch.Tensor,
    backend: str,
) -> torch.Tensor:
    parts = []
    for is_long, first, last in runs_by_length(row_lengths, least=LONG_ROW if backend in (AUTO, FA3) else None):
        span = slice(sum(row_lengths[:first]), sum(row_lengths[:last]))
        q, k, v = (x[:, :, span] for x in (query, key, value))
        if is_long:
            with sdpa_kernel(FA3_KERNELS if backend == FA3 else LONG_KERNELS, set_priority=True):
                parts.append(_attend(q, k, v, scaling))
        else:
            is_whole = last - first == len(row_lengths)
            ends = row_ends if is_whole else row_ends[first : last + 1] - row_ends[first]
            parts.append(_attend_varlen(q, k, v, scaling, ends, longest=max(row_lengths[first:last])))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def runs_by_length(row_lengths: tuple[int, ...], *, least: int | None) -> list[tuple[bool, int, int]]:
    """(is_long, first, end) of adjacent rows that share one call: each long row alone, adjacent short rows together.

    least: minimum length of a long row; None: no row counts as long.
    """
    runs: list[tuple[bool, int, int]] = []
    for row, length in enumerate(row_lengths):
        is_long = least is not None and length >= least
        if runs and not is_long and not runs[-1][0]:
            runs[-1] = (False, runs[-1][1], row + 1)
        else:
            runs.append((is_long, row, row + 1))
    return runs


def _attend_rows(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None, row_lengths: tuple[int, ...]
) -> torch.Tensor:
    """One call per row. CPUs have no kernel for packed rows, and a block mask costs S² instead of Σ length²."""
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
        # (−1, 0): all earlier tokens, no later ones.
        window_size=(-1, 0),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return found.transpose(0, 1)[None]


AttentionInterface.register(NAME, packed_attention)
