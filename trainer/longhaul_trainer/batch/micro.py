"""Packs a mini-batch into micro-batches and assigns them to ranks. These are pure functions of the row lengths, so every attempt and
every rank gets the same result."""

from __future__ import annotations

from collections.abc import Sequence

# Used with one data parallel rank, where nothing is balanced. A constant keeps the order, and so the gradient sums, independent of the model.
BALANCE = 100_000


def cut_micro_batches(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Rows (indices into `lengths`) of each micro-batch, packed into at most `max_tokens` tokens.

    First fit, longest first. A row longer than `max_tokens` forms a micro-batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    micros: list[list[int]] = []
    room: list[int] = []
    for row in order:
        at = next((at for at, left in enumerate(room) if lengths[row] <= left), None)
        if at is None:
            micros.append([row])
            room.append(max_tokens - lengths[row])
        else:
            micros[at].append(row)
            room[at] -= lengths[row]
    return micros


def share_out(
    micros: Sequence[Sequence[int]], lengths: Sequence[int], *, ranks: int, balance: float = BALANCE
) -> list[list[Sequence[int]]]:
    """Micro-batches of each data parallel rank. All ranks get the same number; an empty one is a dummy that keeps ranks in step.

    The costliest micro-batch comes first and goes to the rank with the lowest load that has room. A row of n tokens costs
    n + n²/balance, in units of one token through the linear layers. `balance` is near 100,000 for a 72B model, near 10,000 for a 0.6B.
    """
    places = -(-len(micros) // ranks)
    balance = BALANCE if ranks == 1 else balance
    costs = [sum(lengths[row] + lengths[row] ** 2 / balance for row in micro) for micro in micros]
    shares: list[list[Sequence[int]]] = [[] for _ in range(ranks)]
    load = [0.0] * ranks
    for at in sorted(range(len(micros)), key=lambda at: (-costs[at], at)):
        rank = min((rank for rank in range(ranks) if len(shares[rank]) < places), key=lambda rank: (load[rank], rank))
        shares[rank].append(micros[at])
        load[rank] += costs[at]
    return [[*share, *([()] * (places - len(share)))] for share in shares]
