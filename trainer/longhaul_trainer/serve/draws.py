"""Sampling that does not depend on the batch: a hash of (seed, position) gives the uniform number for an inverse CDF in float64."""

from __future__ import annotations

import hashlib

import torch

TWO_53 = float(1 << 53)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends only on the request's seed and the token's position in its sequence."""
    digest = hashlib.blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / TWO_53


def sample_rows(
    logits: torch.Tensor, temperatures: list[float], uniforms: list[float]
) -> tuple[list[int], list[float]]:
    """Samples one token per row. logits: [B, V]. Returns ids and their log-probabilities at the sampling temperature, [B] each.

    Temperature 0 takes the most likely token and returns its log-probability at temperature 1.
    """
    greedy = [temperature == 0 for temperature in temperatures]
    scale = torch.tensor([1.0 if zero else t for zero, t in zip(greedy, temperatures, strict=True)])
    logprobs = torch.log_softmax(logits.float() / scale.to(logits.device)[:, None], dim=-1)
    cdf = logprobs.double().exp().cumsum(dim=-1)
    # Scale by the last entry, because rounding may leave the sum below or above 1.
    targets = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None] * cdf[:, -1:]
    ids = torch.searchsorted(cdf, targets, right=True).clamp_(max=logits.shape[-1] - 1)
    if any(greedy):
        mask = torch.tensor(greedy, device=logits.device)[:, None]
        ids = torch.where(mask, logprobs.argmax(dim=-1, keepdim=True), ids)
    return ids[:, 0].tolist(), logprobs.gather(1, ids)[:, 0].tolist()
