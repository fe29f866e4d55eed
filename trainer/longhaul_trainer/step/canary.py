"""canary.safetensors: label positions where old and new weights differ most. A server proves with them which weights it serves.

Log-probabilities are at temperature 1, like a server's prompt_logprobs. Tensors: row_offsets I64 [R+1], input_ids I32 [T],
position_row I32 [P], position_index I32 [P] (≥ 1, within its row), old_logprobs and new_logprobs F32 [P].
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from longhaul_trainer.batch.load import Batch
from longhaul_trainer.directory import share
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.step.forward import Scorer
from longhaul_trainer.step.training import scatter_rows

NAME = "canary.safetensors"
OLD = "canary-old.safetensors"
# Tokens scored for each position: enough candidates to find positions that moved, without a pass over the whole batch.
CHOICE = 4
Array = np.ndarray[Any, Any]


def canary_rows(batch: Batch, positions: int) -> list[int]:
    """The first rows of the file, which is already shuffled, with at least CHOICE · positions tokens together."""
    rows: list[int] = []
    tokens = 0
    while len(rows) < batch.rows and tokens < CHOICE * positions:
        tokens += batch.row_length(len(rows))
        rows.append(len(rows))
    return rows


def row_logprobs(scorer: Scorer, batch: Batch, rows: list[int], *, max_tokens: int, ranks: Ranks) -> Array:
    """Log-probabilities of all tokens of `rows`, the first rows of the file, in file order, F32; 0.0 at each row's first token.

    A collective.
    """
    everything = np.ones(batch.tokens, dtype=bool)
    result = np.zeros(batch.tokens, dtype=np.float32)
    for micro in scatter_rows(
        rows, batch=batch, label_mask=everything, max_tokens=max_tokens, ranks=ranks, balance=scorer.balance
    ):
        with torch.no_grad():
            logprobs, _ = scorer(micro, 1.0)
        result[micro.index] = logprobs.float().cpu().numpy()
    ranks.sum_array(torch.from_numpy(result))
    return result[: batch.offsets[len(rows)]]


def write_old(directory: Path, old: Array) -> None:
    save_file({"old_logprobs": old}, directory / OLD)
    share(directory / OLD)


def read_old(directory: Path) -> Array:
    return load_file(directory / OLD)["old_logprobs"]


def write_canary(directory: Path, *, batch: Batch, rows: list[int], old: Array, new: Array, positions: int) -> None:
    offsets = batch.offsets[: len(rows) + 1]
    moved = np.abs(new.astype(np.float64) - old)
    moved[offsets[:-1]] = -1.0
    labels = int(offsets[-1]) - len(rows)
    # Stable: of equal differences every machine takes the earlier position.
    chosen = np.sort(np.argsort(-moved, kind="stable")[: min(positions, labels)])
    save_positions(directory / NAME, batch=batch, rows=len(rows), chosen=chosen, old=old, new=new)


def save_positions(path: Path, *, batch: Batch, rows: int, chosen: Array, old: Array, new: Array) -> None:
    """chosen: token indices within the first `rows` rows of the file, ascending; old, new: F32 over all tokens of these rows."""
    offsets = batch.offsets[: rows + 1]
    row = np.searchsorted(offsets, chosen, side="right") - 1
    save_file(
        {
            "row_offsets": offsets.astype(np.int64),
            "input_ids": np.asarray(batch.input_ids[: offsets[-1]], dtype=np.int32),
            "position_row": row.astype(np.int32),
            "position_index": (chosen - offsets[row]).astype(np.int32),
            "old_logprobs": old[chosen],
            "new_logprobs": new[chosen],
        },
        path,
    )
    share(path)
