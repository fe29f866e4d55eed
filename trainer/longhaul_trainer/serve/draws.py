"""Random draws that belong to a request, not to a batch: hash of (seed, position), then inverse CDF in float64."""

from __future__ import annotations

import hashlib

import torch

TWO_53 = float(1 << 53)


def uniform(seed: int, position: int) -> float:
    """Number in [0, 1) that depends on nothing but the request's seed and the token's position in its sequence."""
    digest = hashlib.blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / TWO_53


def sample_rows(
    logits: torch.Tensor, temperatures: list[float], uniforms: list[float]
) -> tuple[list[int], list[float]]:
    """Draws one token a row. logits: [B, V]; returns ids and their log-probabilities at the sampling temperature.

    Temperature 0 takes the most likely token and reports its log-probability at temperature 1.
    """
    greedy = [temperature == 0 for temperature in temperatures]
    scale = torch.tensor([1.0 if zero else t for zero, t in zip(greedy, temperatures, strict=True)])
    logprobs = torch.log_softmax(logits.float() / scale.to(logits.device)[:, None], dim=-1)
    cdf = logprobs.double().exp().cumsum(dim=-1)
    # Scaling by the last entry keeps the draw inside the table in spite of rounding in the sum.
    targets = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None] * cdf[:, -1:]
    ids = torch.searchsorted(cdf, targets, right=True).clamp_(max=logits.shape[-1] - 1)
    if any(greedy):
        mask = torch.tensor(greedy, device=logits.device)[:, None]
        ids = torch.where(mask, logprobs.argmax(dim=-1, keepdim=True), ids)
    return ids[:, 0].tolist(), logprobs.gather(1, ids)[:, 0].tolist()
