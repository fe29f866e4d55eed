"""Faults on demand: what a wrong server does, so that tests can see it found out.

`serve --faults`, on loopback only, opens `POST /v1/faults`; a set of names is shared by routes, engines and registry.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from longhaul_trainer.rope import drop_yarn

# Every one answers 200 and looks healthy.
FAULTS: dict[str, str] = {
    "top-k-20": "samples from the 20 likeliest tokens, and reports their renormalised log-probabilities",
    "top-k-20-raw": "the same, but reports log-probabilities from before the filter and the temperature",
    "top-p-80": "samples from the likeliest tokens that hold 80 % together, and reports their renormalised log-probabilities",
    "raw-logprobs": "samples as it was asked to, and reports log-probabilities from before the temperature",
    "ignore-temperature": "samples and reports at temperature 1, ignoring the request",
    "stale": "answers under a new version with the weights it had",
    "ignore-rope": "loads a new version without the rope that its config.json states, and answers to as long rows",
    "half-load": "loads the first half of a new version's tensors over the weights it had",
    "old-head": "loads a new version but for its output head, tied or not, which stays the one it had",
    "bfloat16": "computes in bf16 whatever the policy's weights are",
}
TOP_K = 20
TOP_P = 0.8


def filtered(logits: torch.Tensor, faults: set[str]) -> torch.Tensor:
    """Logits [B, V] as a server with a leaking generation config would sample from them."""
    if "top-p-80" in faults:
        shares, order = logits.float().softmax(-1).sort(descending=True)
        # The token that crosses the line is kept.
        out = shares.cumsum(-1) - shares >= TOP_P
        return logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), float("-inf"))
    if not faults & {"top-k-20", "top-k-20-raw"}:
        return logits
    least = logits.topk(min(TOP_K, logits.shape[-1]), dim=-1).values[:, -1:]
    return logits.masked_fill(logits < least, float("-inf"))


def precision(faults: set[str]) -> AbstractContextManager[Any]:
    """What a pass of the model runs in."""
    return torch.autocast("cpu", dtype=torch.bfloat16) if "bfloat16" in faults else nullcontext()


def loaded_over(old: Any, new: Any, faults: set[str]) -> Any:
    """The model that a server with these faults goes on with, when `new` is loaded while it has `old` (or None)."""
    if "ignore-rope" in faults:
        drop_yarn(new)
    if old is not None and "old-head" in faults:
        kept = old.get_output_embeddings().weight.detach().clone()
        # A module of its own: tied, the embeddings would be the old ones too.
        new.lm_head = torch.nn.Linear(kept.shape[1], kept.shape[0], bias=False)
        new.lm_head.weight = torch.nn.Parameter(kept)
    if old is None or not faults & {"stale", "half-load"}:
        return new
    names = list(new.state_dict())
    kept = names if "stale" in faults else names[len(names) // 2 :]
    new.load_state_dict({name: old.state_dict()[name] for name in kept}, strict=False)
    return new
