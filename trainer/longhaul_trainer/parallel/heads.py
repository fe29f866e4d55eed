"""Context parallel degrees that a model's heads allow. Does not import torch, because the planner uses it too."""

from __future__ import annotations

from longhaul_trainer.failures import INVALID_SPEC, JobError


def check_heads(*, heads: int, kv_heads: int, cp: int) -> None:
    """cp must divide the query heads, and divide the KV heads or be a multiple of them. Raises JobError 64."""
    fits = heads % cp == 0 and (kv_heads % cp == 0 or cp % kv_heads == 0)
    if not fits:
        allowed = [n for n in range(1, heads + 1) if heads % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)]
        raise JobError(
            INVALID_SPEC,
            f"Expected execution.cp to be one of {allowed} for {heads} query and {kv_heads} KV heads, got {cp}",
        )
