"""Proximal log-probabilities of the whole batch at the input weights, committed before the first update.

They cannot be recomputed after the first update, so a job that resumes at step k reads this file. The first mini-batch needs no separate
pass: the forward pass that trains it also runs at the input weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from longhaul_trainer.batch.load import Batch
from longhaul_trainer.directory import share
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.step.forward import MicroBatch, Scorer

NAME = "prox.safetensors"
Array = np.ndarray[Any, Any]


def compute_prox(
    scorer: Scorer, batch: Batch, micros: Iterator[MicroBatch], *, ranks: Ranks, after_micro: Callable[[int], None]
) -> Array:
    """Log-probabilities of the loss tokens under the scorer's weights. A collective.

    micros: this rank's micro-batches, packed exactly as in training.
    Returns F32 [T] over all ranks, 0.0 at tokens without loss and outside of `micros`. One rank scores each token, so the sum is exact.
    """
    prox = np.zeros(batch.tokens, dtype=np.float32)
    for done, micro in enumerate(micros, start=1):
        with torch.no_grad():
            logprobs, _ = scorer(micro, batch.temperature)
        prox[micro.index] = logprobs.float().cpu().numpy()
        after_micro(done)
    ranks.sum_array(torch.from_numpy(prox))
    return prox


def take_forward(prox: Array, micro: MicroBatch, logprobs: torch.Tensor, *, batch: Batch, ranks: Ranks) -> Array:
    """Writes log-probabilities of a forward pass at the input weights into `prox`, F32 [T], which has 0.0 there.

    logprobs: [n], of the micro-batch's labels. Every context parallel rank gets the full rows that the group shares, as corrections by
    row require. Returns the token indices of these rows, in the micro-batch's order.
    """
    tokens = np.concatenate(
        [np.arange(batch.offsets[row], batch.offsets[row + 1]) for row in micro.rows] or [np.zeros(0, np.int64)]
    )
    values = np.zeros(len(tokens), dtype=np.float32)
    # Labels have the order of their rows' tokens.
    values[np.isin(tokens, micro.index)] = logprobs.detach().float().cpu().numpy()
    ranks.sum_over_row(torch.from_numpy(values))
    prox[tokens] = values
    return tokens


def share_forward(prox: Array, span: slice, *, ranks: Ranks) -> None:
    """Gives every rank the values that `take_forward` wrote on the others. span: of the mini-batch's tokens."""
    # All ranks of a context parallel group hold the same values, so only the first contributes.
    own = np.array(prox[span]) if ranks.cp_rank == 0 else np.zeros_like(prox[span])
    ranks.sum_array(torch.from_numpy(own))
    prox[span] = own


def write_prox(directory: Path, prox: Array) -> None:
    save_file({"prox_logprobs": prox}, directory / NAME)
    share(directory / NAME)


def read_prox(directory: Path) -> Array:
    return load_file(directory / NAME)["prox_logprobs"]
