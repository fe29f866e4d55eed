"""Log-probabilities of label tokens, fp32, at the sampling temperature: the trainer's only forward pass.

A micro-batch is one sequence of concatenated rows without padding between them. Positions restart at each row, and attention stays within
the row. Masks come from row lengths, never from token ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from longhaul_trainer.attention import AUTO
from longhaul_trainer.head import adopt_head
from longhaul_trainer.plan.shapes import shape_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MicroBatch:
    """S tokens of this rank and the n labels that they predict.

    tokens, positions: [1, S]; row_lengths: of the whole sequence over all context parallel ranks, with the padding segment;
    row_ends: cumulative sum of row_lengths, starting at 0, int32.
    predictors: [n], position in S just before each label; targets: [n], token ids; index: [n], position of each label in the batch file.
    rows: row numbers in the batch file, in the order of row_lengths.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    row_lengths: tuple[int, ...]
    row_ends: torch.Tensor
    predictors: torch.Tensor
    targets: torch.Tensor
    index: Array
    rows: tuple[int, ...]


def gather_rows(
    rows: Sequence[int],
    *,
    offsets: Array,
    input_ids: Array,
    label_mask: Array,
    device: torch.device,
    cp: int = 1,
    cp_rank: int = 0,
) -> MicroBatch:
    """label_mask: [T], nonzero at each token to score. Without rows the result is a dummy without labels.

    Labels are shifted in the whole sequence before it is split over context parallel ranks, so a rank also scores the label that
    follows its last token.
    """
    starts = [int(offsets[row]) for row in rows]
    lengths = [int(offsets[row + 1]) - start for row, start in zip(rows, starts, strict=True)]
    used = sum(lengths)
    # A padding segment after the rows makes the length divisible by cp. No row attends to it, and it has no labels.
    padding = cp if not used else -used % cp
    segments = (*lengths, padding) if padding else tuple(lengths)
    source = np.concatenate(
        [np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)] or [np.zeros(0, np.int64)]
    )
    tokens = np.zeros(used + padding, dtype=np.int64)
    tokens[:used] = input_ids[source]
    positions = np.concatenate([np.arange(n) for n in segments])
    labels = np.flatnonzero((label_mask[source] != 0) & (positions[:used] > 0))
    part = len(tokens) // cp
    mine = labels[(labels - 1) // part == cp_rank]
    span = slice(cp_rank * part, (cp_rank + 1) * part)
    return MicroBatch(
        tokens=torch.from_numpy(tokens[span])[None].to(device),
        positions=torch.from_numpy(positions[span])[None].to(device),
        row_lengths=segments,
        row_ends=torch.from_numpy(np.cumsum((0, *segments), dtype=np.int32)).to(device),
        predictors=torch.from_numpy(mine - 1 - span.start).to(device),
        targets=torch.from_numpy(tokens[mine]).to(device),
        index=source[mine],
        rows=tuple(rows),
    )


class Scorer(nn.Module):
    """Maps packed rows to log-probability and entropy of their labels.

    `model` must use the attention of `longhaul_trainer.attention`. This is a module, so that it can be FSDP's root and FSDP sees each call.
    """

    def __init__(self, model: Any, *, cp_group: dist.ProcessGroup | None = None, attention: str = AUTO) -> None:
        super().__init__()
        self.model = model
        self.cp_group = cp_group
        self.attention = attention
        self.balance = shape_of(model.config.to_dict()).balance
        adopt_head(model.get_output_embeddings())

    def forward(
        self, micro: MicroBatch, temperature: float, entropy_trains: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns log-probability [n] and entropy [n]. With gradients enabled, the entropy has one only with `entropy_trains`."""
        hidden = self.model.base_model(
            input_ids=micro.tokens,
            position_ids=micro.positions,
            use_cache=False,
            row_lengths=micro.row_lengths,
            row_ends=micro.row_ends,
            cp_group=self.cp_group,
            backend=self.attention,
        ).last_hidden_state[0]
        return self.model.get_output_embeddings()(hidden[micro.predictors], micro.targets, temperature, entropy_trains)
