"""AdamW (arXiv 1711.05101) whose moments are stored in bf16, on the host, or both, between updates.

The update is computed in fp32 on the parameter's device. Rounding to bf16 is stochastic: with beta2 = 0.999 a moment changes by a
thousandth, a quarter of bf16's step, and round-to-nearest would never change it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch.distributed.tensor import DTensor


class LeanAdamW(torch.optim.Optimizer):
    """State tensors cover this rank's shard of a parameter. `states`: dtype of stored moments; `host`: store them on the host.

    Rounding depends only on `seed`, the number of updates and the parameter's position.
    """

    def __init__(
        self,
        groups: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        states: torch.dtype,
        host: bool,
        seed: int,
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})
        self._states, self._host, self._seed = states, host, seed

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if closure is not None:
            raise ValueError("Expected no closure")
        number = 0
        for group in self.param_groups:
            for parameter in group["params"]:
                number += 1
                if parameter.grad is not None:
                    self._update(parameter, group, number)

    def place_state(self, parameter: torch.Tensor, moment: torch.Tensor) -> torch.Tensor:
        """The moment in the dtype and on the device in which it is stored between updates."""
        if not self._host:
            return moment.to(parameter.device, self._states)
        resting = moment.to("cpu", self._states)
        # From pageable memory the driver copies through its own buffer, at a fraction of the bus bandwidth.
        return resting.pin_memory() if parameter.is_cuda else resting

    def _update(self, parameter: torch.Tensor, group: dict[str, Any], number: int) -> None:
        assert parameter.grad is not None
        weight, slope = _local(parameter), _local(parameter.grad).float()
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = self.place_state(weight, torch.zeros_like(weight))
        state["step"] += 1
        updates = int(state["step"])
        beta1, beta2 = group["betas"]
        # Convert to fp32 on the device: bf16 moments halve the transfer.
        mean, square = (
            state[name].to(weight.device, non_blocking=True).to(torch.float32) for name in ("exp_avg", "exp_avg_sq")
        )
        mean.lerp_(slope, 1 - beta1)
        square.mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        divisor = (square.sqrt() / math.sqrt(1 - beta2**updates)).add_(group["eps"])
        weight.addcdiv_(mean, divisor, value=-group["lr"] / (1 - beta1**updates))
        dice = torch.Generator(weight.device).manual_seed(hash((self._seed, updates, number)) % 2**63)
        for name, moment in (("exp_avg", mean), ("exp_avg_sq", square)):
            rounded = round_by_chance(moment, dice) if self._states == torch.bfloat16 else moment
            state[name].copy_(rounded)


def round_by_chance(values: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    """Stochastic rounding, fp32 → bf16, unbiased: adds uniform noise to the 16 bits that are cut off."""
    noise = torch.randint(0, 1 << 16, values.shape, generator=dice, device=values.device, dtype=torch.int32)
    bits = (values.contiguous().view(torch.int32) + noise) & -65536
    return bits.view(torch.float32).to(torch.bfloat16)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
