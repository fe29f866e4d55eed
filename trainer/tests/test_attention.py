"""Choice of the attention kernel and its arguments. The kernels for packed rows themselves need a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend

from longhaul_trainer import attention, recompute
from longhaul_trainer.__main__ import ATTENTION, OFFLOADS
from longhaul_trainer.failures import UNAVAILABLE, JobError


def of_torch_2_10(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, *, scale=None): ...


def of_torch_2_13(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=None, enable_gqa=False
): ...


def test_a_kernel_is_used_only_when_it_accepts_our_keywords() -> None:
    assert attention.takes_our_keywords(of_torch_2_13)
    # torch 2.10 has the function, but not all keywords that we pass.
    assert not attention.takes_our_keywords(of_torch_2_10)
    assert not attention.takes_our_keywords(None)
    assert attention.takes_our_keywords(attention.varlen_attn)
    assert attention.HAS_VARLEN


def test_row_ends_reach_the_kernel_without_a_new_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer creates no tensor on the device: a copy from the host would synchronise with it."""
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


@pytest.mark.parametrize(
    ("lengths", "least", "expected"),
    [
        ((3, 4), None, [(False, 0, 2)]),
        ((3, 4), 4, [(False, 0, 1), (True, 1, 2)]),
        ((9, 9), 4, [(True, 0, 1), (True, 1, 2)]),
        ((1, 2, 9, 3, 1), 4, [(False, 0, 2), (True, 2, 3), (False, 3, 5)]),
        ((9,), None, [(False, 0, 1)]),
    ],
)
def test_long_rows_are_called_alone_and_short_neighbours_together(
    lengths: tuple[int, ...], least: int | None, expected: list[tuple[bool, int, int]]
) -> None:
    assert attention.runs_by_length(lengths, least=least) == expected


CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("device", "capability", "compute", "found"),
    [
        (CPU, None, torch.bfloat16, r"a GPU of compute capability 9\.x \(Hopper\) for attention fa3, found: a CPU"),
        (GPU, (8, 0), torch.bfloat16, r"a GPU of compute capability 9\.x .*, found: one of 8\.0"),
        (GPU, (10, 0), torch.bfloat16, r"a GPU of compute capability 9\.x .*, found: one of 10\.0"),
        (GPU, (9, 0), torch.float32, "compute in bf16 for attention fa3, found: float32"),
        # torch's registry imports the package, which is not installed.
        (GPU, (9, 0), torch.bfloat16, "the package flash_attn_interface .*No module named 'flash_attn_interface'"),
    ],
)
def test_flash_attention_3_is_refused_when_it_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
    device: torch.device,
    capability: tuple[int, int] | None,
    compute: torch.dtype,
    found: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    with pytest.raises(JobError, match=f"^Expected {found}") as caught:
        attention.prepare_attention("fa3", device=device, compute=compute)
    assert caught.value.code == UNAVAILABLE
    for other in ("auto", "varlen", "rows"):
        attention.prepare_attention(other, device=device, compute=compute)


def test_flash_attention_3_takes_every_row_and_cudnn_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's registry replaces its flash kernels, so long rows must select those."""
    activated, asked, real = [], [], attention.sdpa_kernel

    def choose(kernels: list[Any], *, set_priority: bool) -> Any:
        assert set_priority
        asked.append(kernels)
        # The kernel that a CPU has.
        return real([SDPBackend.MATH])

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(attention.torch_attention, "activate_flash_attention_impl", activated.append)
    monkeypatch.setattr(attention, "sdpa_kernel", choose)
    monkeypatch.setattr(attention, "varlen_attn", lambda q, *_, **__: q)
    monkeypatch.setattr(attention, "_has_varlen", lambda _: True)
    monkeypatch.setattr(attention, "LONG_ROW", 6)
    query, ends = torch.zeros(1, 2, 9, 8), torch.tensor([0, 6, 9], dtype=torch.int32)
    for backend in ("fa3", "auto"):
        attention.prepare_attention(backend, device=GPU, compute=torch.bfloat16)
        attention.packed_attention(None, query, query, query, None, row_lengths=(6, 3), row_ends=ends, backend=backend)
    assert activated == ["FA3"]
    assert asked == [[SDPBackend.FLASH_ATTENTION], [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]]


def test_the_command_line_lists_the_options_of_the_modules() -> None:
    assert set(ATTENTION) == set(attention.BACKENDS)
    assert OFFLOADS == recompute.OFFLOADS


@pytest.mark.parametrize("backend", ["auto", "varlen"])
def test_each_row_attends_only_to_itself_after_a_split_by_length(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """The GPU path with a replacement of its kernel, against one call per row: outputs and gradients are equal."""
    lengths, calls = (6, 3, 12, 2, 5), []

    def varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ends: torch.Tensor, *rest: Any, **named: Any) -> Any:
        row_lengths = tuple((ends[1:] - ends[:-1]).tolist())
        assert int(ends[0]) == 0
        assert int(ends[-1]) == q.shape[0]
        assert rest[1] == max(row_lengths)
        calls.append(row_lengths)
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        return attention._attend_rows(q, k, v, named["scale"], row_lengths)[0].transpose(0, 1)

    def attend(name: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        shapes = ((1, 4, 28, 8), (1, 2, 28, 8), (1, 2, 28, 8))
        parts = [torch.randn(shape, requires_grad=True) for shape in shapes]
        ends = torch.tensor([0, *lengths]).cumsum(0).int()
        q, k, v = parts
        found, _ = attention.packed_attention(None, q, k, v, None, row_lengths=lengths, row_ends=ends, backend=name)
        (found * torch.arange(28)[:, None, None]).sum().backward()
        return [found, *(part.grad for part in parts if part.grad is not None)]

    expected = attend("rows")
    monkeypatch.setattr(attention, "varlen_attn", varlen)
    monkeypatch.setattr(attention, "_has_varlen", lambda _: True)
    monkeypatch.setattr(attention, "LONG_ROW", 6)
    for one, other in zip(attend(backend), expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    assert calls == ([(3,), (2, 5)] if backend == "auto" else [lengths])
    calls.clear()
    attend("rows")
    assert calls == []
