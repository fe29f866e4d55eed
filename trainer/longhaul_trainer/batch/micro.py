"""Cutting a mini-batch into micro-batches: a pure function of the row lengths, so that every attempt cuts alike."""

from __future__ import annotations

from collections.abc import Sequence


def cut_micro_batches(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Rows (by index into `lengths`) of each micro-batch; padded size at most `max_tokens`, a longer row goes alone.

    Longest first, so that rows of like length share a micro-batch and little is padded.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    micros: list[list[int]] = []
    for row in order:
        if micros and (len(micros[-1]) + 1) * lengths[micros[-1][0]] <= max_tokens:
            micros[-1].append(row)
        else:
            micros.append([row])
    return micros
