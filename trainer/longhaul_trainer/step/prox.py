"""Proximal log-probabilities of the whole batch at the input weights, committed before the first update.

After the first update they could not be recomputed, so a job that resumes at step k reads this file.
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

    micros: this rank's micro-batches of the whole batch, cut exactly as training cuts them.
    Returns F32 [T] of all ranks, 0.0 off the loss; each token is scored by one rank, so the sum is exact.
    """
    prox = np.zeros(batch.tokens, dtype=np.float32)
    for done, micro in enumerate(micros, start=1):
        with torch.no_grad():
            logprobs, _ = scorer(micro, batch.temperature)
        prox[micro.index] = logprobs.float().cpu().numpy()
        after_micro(done)
    ranks.sum_array(torch.from_numpy(prox))
    return prox


def write_prox(directory: Path, prox: Array) -> None:
    save_file({"prox_logprobs": prox}, directory / NAME)
    share(directory / NAME)


def read_prox(directory: Path) -> Array:
    return load_file(directory / NAME)["prox_logprobs"]
