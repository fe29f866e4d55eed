"""Which form of the packed kernel is called, and with what: the kernel itself needs a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from longhaul_trainer import attention


def of_torch_2_10(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, *, scale=None): ...


def of_torch_2_13(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=None, enable_gqa=False
): ...


def test_a_kernel_is_used_where_it_takes_the_keywords_that_we_call_it_with() -> None:
    assert attention.takes_our_keywords(of_torch_2_13)
    # Importing it works there, calling it as we do would not.
    assert not attention.takes_our_keywords(of_torch_2_10)
    assert not attention.takes_our_keywords(None)
    assert attention.takes_our_keywords(attention.varlen_attn)
    assert attention.HAS_VARLEN


def test_rows_reach_the_kernel_as_the_micro_batch_brought_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made on the device in a layer: a copy from the host would wait for it."""
    calls: list[tuple[Any, ...]] = []

    def kernel(*arguments: Any, **named: Any) -> torch.Tensor:
        calls.append((arguments[3:], named))
        return arguments[0]

    monkeypatch.setattr(attention, "varlen_attn", kernel)
    monkeypatch.setattr(attention, "_has_varlen", lambda query: True)
    monkeypatch.setattr(torch, "tensor", lambda *_, **__: pytest.fail("A tensor was made"))
    ends = torch.arange(3, dtype=torch.int32) * 2
    query, key = torch.zeros(1, 4, 4, 8), torch.zeros(1, 2, 4, 8)
    found, _ = attention.packed_attention(None, query, key, key, None, scaling=0.5, row_lengths=(2, 2), row_ends=ends)
    assert found.shape == (1, 4, 4, 8)
    ((q_ends, k_ends, *longest), named) = calls[0]
    assert q_ends is k_ends is ends
    assert longest == [2, 2]
    assert named == {"scale": 0.5, "window_size": (-1, 0), "enable_gqa": True}
