"""Packing of rows into micro-batches and assignment to ranks, against results worked out by hand."""

from __future__ import annotations

import pytest

from longhaul_trainer.batch.micro import BALANCE, cut_micro_batches, share_out


@pytest.mark.parametrize(
    ("lengths", "max_tokens", "micros"),
    [
        ([], 10, []),
        # Longest first, each into the first micro-batch with room; equal lengths in file order.
        ([5, 5], 10, [[0, 1]]),
        ([5, 6], 10, [[1], [0]]),
        ([3, 7, 3, 7], 10, [[1, 0], [3, 2]]),
        ([4, 4, 4, 1, 1], 10, [[0, 1, 3, 4], [2]]),
        # Exactly full, and one token too long for the rest.
        ([6, 4, 5], 10, [[0, 1], [2]]),
        ([6, 5, 4], 10, [[0, 2], [1]]),
        # A row above the limit forms its own micro-batch.
        ([12, 1, 1], 10, [[0], [1, 2]]),
        ([2, 2], 1, [[0], [1]]),
    ],
)
def test_rows_are_packed_first_fit_longest_first(lengths: list[int], max_tokens: int, micros: list[list[int]]) -> None:
    assert cut_micro_batches(lengths, max_tokens=max_tokens) == micros


def test_a_row_costs_its_length_plus_its_square_divided_by_the_balance() -> None:
    assert BALANCE == 100_000
    # One row of 200,000 costs 200,000 + 400,000; two of 150,000 cost 2·(150,000 + 225,000) = 750,000; one of 250,000: 875,000.
    lengths = [200_000, 150_000, 150_000, 250_000]
    assert share_out([[0], [1, 2], [3]], lengths, ranks=1) == [[[3], [1, 2], [0]]]
    # One row of 100,000 costs 200,000; three of 50,000 cost 3·75,000 = 225,000, although their squares sum to less.
    assert share_out([[0], [1, 2, 3]], [100_000, 50_000, 50_000, 50_000], ranks=1) == [[[1, 2, 3], [0]]]
    # Rows 0 and 1 tie at 100: the earlier one comes first.
    assert share_out([[0], [1], [2]], [100, 100, 101], ranks=1) == [[[2], [0], [1]]]


def test_ranks_are_balanced_by_the_cost_of_rows_in_this_model() -> None:
    lengths = [100, 80, 40, 40, 40]
    micros = [[0], [1], [2], [3], [4]]
    # Attention is cheap: 100 and 80, then 40 → 1 (120), 40 → 0 (140), 40 → 1.
    assert share_out(micros, lengths, ranks=2, balance=1e9) == [[[0], [3], ()], [[1], [2], [4]]]
    # Attention is expensive: 1,100 and 720, then 200 → 1 (920), 200 → 1 (1,120), and 200 → 0.
    assert share_out(micros, lengths, ranks=2, balance=10) == [[[0], [4], ()], [[1], [2], [3]]]
    # With one rank nothing is balanced, and the order does not depend on the model: with BALANCE, 150 costs less than 2·80.
    assert share_out([[0], [1, 2]], [150, 80, 80], ranks=1, balance=10) == [[[1, 2], [0]]]


def test_every_rank_gets_as_many_rows_and_the_least_busy_the_costliest_first() -> None:
    lengths = [8, 7, 6, 5, 4]
    micros = [[0], [1], [2], [3], [4]]
    # Two ranks, three each: 8 → 0, 7 → 1, 6 → 1 (7 < 8), 5 → 0. Now both have 13, but the squares are 89 and 85 hundred-thousandths: 4 → 1.
    shares = share_out(micros, lengths, ranks=2)
    assert shares == [[[0], [3], ()], [[1], [2], [4]]]
    # Of equal ranks the lower one comes first. A rank without work gets dummies.
    assert share_out([[0]], [3], ranks=3) == [[[0]], [()], [()]]
    assert share_out([[0], [1], [2]], [1, 1, 1], ranks=2) == [[[0], [2]], [[1], ()]]
    # A full rank gets no more, however low its load: one micro-batch each.
    assert share_out([[0], [1]], [9, 1], ranks=2) == [[[0]], [[1]]]
    # Four micro-batches, two per rank: 10 → 0, then 1, 1 → 1 until it is full, and the last 1 → 0.
    assert share_out([[0], [1], [2], [3]], [10, 1, 1, 1], ranks=2) == [[[0], [3]], [[1], [2]]]
    assert share_out([], [], ranks=2) == [[], []]
