"""Faults on demand: what a wrong server does, so that tests can see it found out.

`serve --faults`, on loopback only, opens `POST /v1/faults`; a set of names is shared by routes, engines and registry.
"""

from __future__ import annotations

from typing import Any

import torch

from longhaul_trainer.rope import drop_yarn

# Every one answers 200 and looks healthy.
FAULTS: dict[str, str] = {
    "top-k-20": "samples from the 20 likeliest tokens, and reports their renormalised log-probabilities",
    "top-k-20-raw": "the same, but reports log-probabilities from before the filter and the temperature",
    "ignore-temperature": "samples and reports at temperature 1, ignoring the request",
    "stale": "answers under a new version with the weights it had",
    "ignore-rope": "loads a new version without the rope that its config.json states, and answers to as long rows",
    "half-load": "loads the first half of a new version's tensors over the weights it had",
}
TOP_K = 20


def filtered(logits: torch.Tensor, faults: set[str]) -> torch.Tensor:
    """Logits [B, V] as a server with a leaking generation config would sample from them."""
    if not faults & {"top-k-20", "top-k-20-raw"}:
        return logits
    least = logits.topk(min(TOP_K, logits.shape[-1]), dim=-1).values[:, -1:]
    return logits.masked_fill(logits < least, float("-inf"))


def loaded_over(old: Any, new: Any, faults: set[str]) -> Any:
    """The model that a server with these faults goes on with, when `new` is loaded while it has `old` (or None)."""
    if "ignore-rope" in faults:
        drop_yarn(new)
    if old is None or not faults & {"stale", "half-load"}:
        return new
    names = list(new.state_dict())
    kept = names if "stale" in faults else names[len(names) // 2 :]
    new.load_state_dict({name: old.state_dict()[name] for name in kept}, strict=False)
    return new
