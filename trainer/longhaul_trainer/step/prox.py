"""Proximal log-probabilities of the whole batch at the input weights, committed before the first update.

After the first update they could not be recomputed, so a job that resumes at step k reads this file. Those of the first mini-batch cost no
pass of their own: the forward pass that trains it runs at the input weights too.
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
    """Log-probabilities of the loss tokens by the scorer's weights.

    micros: this rank's micro-batches, cut exactly as training cuts them.
    Returns F32 [T] of all ranks, 0.0 off the loss and where no micro-batch was; each token is scored by one rank, so the sum is exact.
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
    """Puts log-probabilities of a forward pass at the input weights into `prox`: F32 [T], 0.0 there until now.

    logprobs: [n], of the micro-batch's labels. Context parallel ranks each get the whole rows that they share, which a correction by row
    needs. Returns the tokens of these rows, in the micro-batch's order.
    """
    tokens = np.concatenate(
        [np.arange(batch.offsets[row], batch.offsets[row + 1]) for row in micro.rows] or [np.zeros(0, np.int64)]
    )
    values = np.zeros(len(tokens), dtype=np.float32)
    # Labels are in the order of their rows' tokens.
    values[np.isin(tokens, micro.index)] = logprobs.detach().float().cpu().numpy()
    ranks.sum_over_row(torch.from_numpy(values))
    prox[tokens] = values
    return tokens


def share_forward(prox: Array, span: slice, *, ranks: Ranks) -> None:
    """Gives every rank what `take_forward` found on the others. span: of the mini-batch's tokens."""
    # Neighbours in context hold the same values.
    own = np.array(prox[span]) if ranks.cp_rank == 0 else np.zeros_like(prox[span])
    ranks.sum_array(torch.from_numpy(own))
    prox[span] = own


def write_prox(directory: Path, prox: Array) -> None:
    save_file({"prox_logprobs": prox}, directory / NAME)
    share(directory / NAME)


def read_prox(directory: Path) -> Array:
    return load_file(directory / NAME)["prox_logprobs"]
