"""Log-probabilities of label tokens, fp32, at the sampling temperature: the one forward pass of the trainer.

Rows are padded on the right and attention is causal, so padding is never seen: masks come from lengths, never from ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

# Logits of one chunk: 128 MiB in fp32.
CHUNK_LOGITS = 1 << 25

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MicroBatch:
    """tokens: [B, L], padded with 0 behind each row's end; labels: [n, 2] as (row of B, position ≥ 1).

    index: [n], where each label lies in the batch file; row_of: [n], its row in the batch file.
    """

    tokens: torch.Tensor
    labels: torch.Tensor
    index: Array
    row_of: Array


def gather_rows(
    rows: list[int], *, offsets: Array, input_ids: Array, label_mask: Array, device: torch.device
) -> MicroBatch:
    """label_mask: [T], true at every token whose log-probability is wanted."""
    lengths = [int(offsets[row + 1] - offsets[row]) for row in rows]
    tokens = np.zeros((len(rows), max(lengths)), dtype=np.int64)
    labels, index, row_of = [], [], []
    for at, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        start = int(offsets[row])
        tokens[at, :length] = input_ids[start : start + length]
        positions = np.flatnonzero(label_mask[start : start + length])
        labels.append(np.stack([np.full_like(positions, at), positions], axis=1))
        index.append(start + positions)
        row_of.append(np.full_like(positions, row))
    return MicroBatch(
        tokens=torch.from_numpy(tokens).to(device),
        labels=torch.from_numpy(np.concatenate(labels)).to(device),
        index=np.concatenate(index),
        row_of=np.concatenate(row_of),
    )


def label_logprobs(model: Any, micro: MicroBatch, *, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns log-probability [n], with gradient where enabled, and entropy [n], without. The label shift is here."""
    hidden = model.base_model(input_ids=micro.tokens, use_cache=False).last_hidden_state
    picked = hidden[micro.labels[:, 0], micro.labels[:, 1] - 1]
    targets = micro.tokens[micro.labels[:, 0], micro.labels[:, 1]]
    head = model.get_output_embeddings()
    size = max(1, CHUNK_LOGITS // model.config.vocab_size)
    if len(targets) <= size:
        return _head_logprobs(head, picked, targets, temperature)
    parts = [
        # Recomputed in the backward pass: the logits of a long row would not fit beside its activations.
        checkpoint(
            _head_logprobs,
            head,
            picked[at : at + size],
            targets[at : at + size],
            temperature,
            use_reentrant=False,
        )
        for at in range(0, len(targets), size)
    ]
    return torch.cat([logp for logp, _ in parts]), torch.cat([entropy for _, entropy in parts])


def _head_logprobs(
    head: Any, hidden: torch.Tensor, targets: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    logprobs = torch.log_softmax(head(hidden).float() / temperature, dim=-1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(dim=-1)
    return logprobs.gather(1, targets[:, None])[:, 0], entropy
