"""window.safetensors: log-probabilities beyond the model's native window. A server proves with them that it applies the rope setting.

It has the canary's format: `new_logprobs` with the rope, `old_logprobs` of the same weights without it. The row holds random tokens:
any row that is long enough will do, and a base policy has no batch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from longhaul_trainer.batch.load import Batch
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.rope import Yarn, without_yarn
from longhaul_trainer.step.canary import row_logprobs, save_positions
from longhaul_trainer.step.forward import Scorer

NAME = "window.safetensors"
# Number of positions scored, from the first one beyond the native window.
POSITIONS = 256
Array = np.ndarray[Any, Any]


def prepare_window(
    scorer: Scorer, yarn: Yarn | None, architecture: Path, *, max_tokens: int, ranks: Ranks
) -> Callable[[Path], None]:
    """Computes the log-probabilities, a collective, and returns the function that writes the file into a directory.

    Without a rope that function writes nothing.
    """
    if yarn is None or not reaches_beyond(yarn):
        return lambda _: None
    # Without special tokens, to which a server might react.
    tokenizer = Tokenizer.from_file(str(architecture / "tokenizer.json"))
    row = window_row(yarn, vocabulary=tokenizer.get_vocab_size(with_added_tokens=False))
    stated, ignored = window_logprobs(scorer, row, max_tokens=max_tokens, ranks=ranks)
    return lambda directory: write_window(directory, row=row, yarn=yarn, stated=stated, ignored=ignored)


def window_row(yarn: Yarn, *, vocabulary: int, seed: int = 0) -> Batch:
    """One row that ends POSITIONS after the native window, or one token before the rope's end, because a server samples one more."""
    length = min(yarn.original_max + POSITIONS, yarn.reach - 1)
    ids = np.random.Generator(np.random.PCG64(seed)).integers(0, vocabulary, length, dtype=np.int32)
    return Batch(
        offsets=np.array([0, length], dtype=np.int64),
        input_ids=ids,
        loss_mask=np.ones(length, dtype=np.uint8),
        behaviour_logprobs=None,
        advantages=None,
        minibatches=[],
        temperature=1.0,
        dropped_nonfinite=0,
    )


def reaches_beyond(yarn: Yarn) -> bool:
    """Whether the rope adds positions: a factor of 1 does not."""
    return yarn.reach - 1 > yarn.original_max


def window_logprobs(scorer: Scorer, row: Batch, *, max_tokens: int, ranks: Ranks) -> tuple[Array, Array]:
    """Log-probabilities of the row with the rope, and without it. A collective."""
    stated = row_logprobs(scorer, row, [0], max_tokens=max_tokens, ranks=ranks)
    with without_yarn(scorer.model):
        ignored = row_logprobs(scorer, row, [0], max_tokens=max_tokens, ranks=ranks)
    return stated, ignored


def write_window(directory: Path, *, row: Batch, yarn: Yarn, stated: Array, ignored: Array) -> None:
    chosen = np.arange(yarn.original_max, row.tokens)
    save_positions(directory / NAME, batch=row, rows=1, chosen=chosen, old=ignored, new=stated)
