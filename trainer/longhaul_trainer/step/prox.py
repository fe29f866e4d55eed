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
from longhaul_trainer.step.forward import MicroBatch, label_logprobs

NAME = "prox.safetensors"
Array = np.ndarray[Any, Any]


def compute_prox(
    model: Any, batch: Batch, micros: Iterator[MicroBatch], *, after_micro: Callable[[int], None]
) -> Array:
    """micros: every micro-batch of the batch, cut exactly as training cuts them. Returns F32 [T], 0.0 off the loss."""
    prox = np.zeros(batch.tokens, dtype=np.float32)
    for done, micro in enumerate(micros, start=1):
        with torch.no_grad():
            logprobs, _ = label_logprobs(model, micro, temperature=batch.temperature)
        prox[micro.index] = logprobs.float().cpu().numpy()
        after_micro(done)
    return prox


def write_prox(directory: Path, prox: Array) -> None:
    save_file({"prox_logprobs": prox}, directory / NAME)


def read_prox(directory: Path) -> Array:
    return load_file(directory / NAME)["prox_logprobs"]
