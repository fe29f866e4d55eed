"""Faults of policy servers on demand, so that tests can prove that the checks detect them.

`serve --faults`, on loopback only, enables `POST /v1/faults`. Routes, engines and registry share one set of fault names.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from longhaul_trainer.rope import drop_yarn, restretch, stated_yarn

# With each of them the server answers 200 and looks healthy.
FAULTS: dict[str, str] = {
    "top-k-20": "samples from the 20 likeliest tokens, and reports their renormalised log-probabilities",
    "top-k-20-raw": "the same, but reports log-probabilities before filter and temperature",
    "top-p-80": "samples from the likeliest tokens that hold 80 % together, and reports their renormalised log-probabilities",
    "top-p-80-hidden": "the same, but reports log-probabilities after the temperature and before the filter",
    "top-k-20-hidden": "samples from the 20 likeliest tokens, and reports log-probabilities after the temperature and before the filter",
    "min-p-5": "drops tokens below 5 % of the likeliest token's probability, and reports renormalised log-probabilities of the others",
    "repetition-105": "applies a repetition penalty of 1.05 to the tokens of the sequence",
    "raw-logprobs": "samples as requested, and reports log-probabilities before the temperature",
    "ignore-temperature": "samples and reports at temperature 1, ignoring the request",
    "hidden-temperature": "samples at temperature 1, and reports log-probabilities at the temperature of the request",
    "stale": "answers under a new version with the old weights",
    "ignore-rope": "loads a new version without the rope that its config.json states, and accepts rows of the same length",
    "other-rope": "loads a new version with half the factor of its rope",
    "half-load": "loads only the first half of a new version's tensors and keeps the old ones for the rest",
    "stale-layer": "loads a new version but keeps the old last layer",
    "old-head": "loads a new version but keeps the old output head, tied or not",
    "other-tokenizer": "tokenizes like a tokenizer with one more token at the start of its vocabulary: each id is one too high",
    "bfloat16": "computes in bf16, whatever dtype the policy's weights have",
}
TOP_K = 20
TOP_P = 0.8
MIN_P = 0.05
REPETITION = 1.05


def penalised(logits: torch.Tensor, seen: list[list[int]], faults: set[str]) -> torch.Tensor:
    """Logits [B, V] after a repetition penalty on the tokens that each row has seen."""
    if "repetition-105" not in faults:
        return logits
    logits = logits.clone()
    for row, ids in zip(logits, seen, strict=True):
        known = torch.tensor(sorted(set(ids)), device=row.device)
        row[known] = torch.where(row[known] > 0, row[known] / REPETITION, row[known] * REPETITION)
    return logits


def filtered(logits: torch.Tensor, temperatures: list[float], faults: set[str]) -> torch.Tensor:
    """Logits [B, V] of a server that applies the sampling filters of a generation config. It filters after the temperature, like engines."""
    if faults & {"top-p-80", "top-p-80-hidden"}:
        shares, order = torch.log_softmax(_heated(logits, temperatures), dim=-1).exp().sort(descending=True)
        # The token that crosses the threshold is kept.
        out = shares.cumsum(-1) - shares >= TOP_P
        return logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), float("-inf"))
    if "min-p-5" in faults:
        shares = _heated(logits, temperatures).softmax(-1)
        return logits.masked_fill(shares < MIN_P * shares.amax(-1, keepdim=True), float("-inf"))
    if not faults & {"top-k-20", "top-k-20-raw", "top-k-20-hidden"}:
        return logits
    least = logits.topk(min(TOP_K, logits.shape[-1]), dim=-1).values[:, -1:]
    return logits.masked_fill(logits < least, float("-inf"))


def reported(
    logits: torch.Tensor, ids: list[int], logprobs: list[float], temperatures: list[float], faults: set[str]
) -> list[float]:
    """Log-probabilities that the server reports, [B]; faults make them differ from those used for sampling. logits [B, V]: of the model."""
    if faults & {"top-k-20-raw", "raw-logprobs"}:
        said = logits.float()
    elif faults & {"top-k-20-hidden", "top-p-80-hidden", "hidden-temperature"}:
        said = _heated(logits, temperatures)
    else:
        return logprobs
    table = torch.log_softmax(said, dim=-1)
    return [float(table[row, token]) for row, token in enumerate(ids)]


def _heated(logits: torch.Tensor, temperatures: list[float]) -> torch.Tensor:
    return logits.float() / torch.tensor([t or 1.0 for t in temperatures], device=logits.device)[:, None]


def tokenized(ids: list[int], faults: set[str]) -> list[int]:
    return [token + 1 for token in ids] if "other-tokenizer" in faults else ids


def precision(faults: set[str]) -> AbstractContextManager[Any]:
    """The context in which the model's forward pass runs."""
    return torch.autocast("cpu", dtype=torch.bfloat16) if "bfloat16" in faults else nullcontext()


def loaded_over(old: Any, new: Any, faults: set[str]) -> Any:
    """The model that a server with these faults serves after loading `new`. `old`: the model before, or None."""
    if "ignore-rope" in faults:
        drop_yarn(new)
    if "other-rope" in faults and (yarn := stated_yarn(new.config.to_dict())) is not None:
        restretch(new, factor=yarn.factor / 2)
    if old is not None and "old-head" in faults:
        kept = old.get_output_embeddings().weight.detach().clone()
        # A separate module: if it were tied, the embeddings would be old too.
        new.lm_head = torch.nn.Linear(kept.shape[1], kept.shape[0], bias=False)
        new.lm_head.weight = torch.nn.Parameter(kept)
    if old is None or not faults & {"stale", "half-load", "stale-layer"}:
        return new
    names = list(new.state_dict())
    last = f".layers.{new.config.num_hidden_layers - 1}."
    if "stale-layer" in faults:
        kept = [name for name in names if last in name]
    else:
        kept = names if "stale" in faults else names[len(names) // 2 :]
    new.load_state_dict({name: old.state_dict()[name] for name in kept}, strict=False)
    return new
