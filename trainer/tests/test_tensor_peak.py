from __future__ import annotations

import torch

from longhaul_trainer.tensor_peak import tensor_peak

KIB = 1024


def zeros(kibibytes: int) -> torch.Tensor:
    return torch.zeros(kibibytes * KIB, dtype=torch.uint8)


def test_tensors_that_live_at_once_add_up_and_freed_ones_do_not() -> None:
    def work() -> None:
        first = zeros(100)
        del first
        second = zeros(40)
        third = zeros(70)
        del second, third

    assert tensor_peak(work, kept=[]) == 110 * KIB


def test_kept_tensors_count_once_for_each_storage() -> None:
    kept = zeros(30)
    assert tensor_peak(lambda: zeros(5), kept=[kept, kept[: 10 * KIB], zeros(1)]) == 36 * KIB


def test_a_backward_pass_needs_what_its_forward_pass_kept() -> None:
    # 10 KiB of input; its gradient, and one activation of the same size for each layer.
    x = torch.zeros(2560, requires_grad=True)

    def work() -> None:
        y = x
        for _ in range(8):
            y = y.exp()
        y.sum().backward()
        x.grad = None

    assert tensor_peak(work, kept=[x]) >= 10 * KIB * 9
