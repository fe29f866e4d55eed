"""The chunked head on bf16 inputs against float64."""

from __future__ import annotations

import torch

from longhaul_trainer.head import label_logprobs

WORDS = 150_000
HIDDEN = 64
TOKENS = 256


def scored(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    hidden = hidden.clone().requires_grad_()
    weight = weight.clone().requires_grad_()
    logprobs, _ = label_logprobs(hidden, weight, targets, 1.0)
    logprobs.sum().backward()
    assert hidden.grad is not None
    assert weight.grad is not None
    return logprobs.detach().double(), hidden.grad.double(), weight.grad.double()


def head_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs whose logits have a standard deviation of about 4: some positions are uncertain, others are not."""
    draw = torch.Generator().manual_seed(5)
    hidden = torch.randn(TOKENS, HIDDEN, generator=draw).bfloat16()
    weight = (torch.randn(WORDS, HIDDEN, generator=draw) * 0.5).bfloat16()
    return hidden, weight, torch.randint(WORDS, (TOKENS,), generator=draw)


def test_bf16_logprobs_equal_those_of_the_same_values_in_float64() -> None:
    hidden, weight, targets = head_inputs()
    found, _, _ = scored(hidden, weight, targets)
    expected, _, _ = scored(hidden.double(), weight.double(), targets)
    difference = (found - expected).abs()
    # Products of bf16 values are exact in fp32; logits rounded to bf16 would be off by up to 0.06.
    assert difference.quantile(0.99) < 5e-3
    assert difference.max() < 2e-2


def test_bf16_gradients_are_rounded_once() -> None:
    hidden, weight, targets = head_inputs()
    _, to_hidden, to_weight = scored(hidden, weight, targets)
    _, expected_hidden, expected_weight = scored(hidden.double(), weight.double(), targets)
    for found, expected in ((to_hidden, expected_hidden), (to_weight, expected_weight)):
        assert (found - expected).norm() < 4e-3 * expected.norm()
