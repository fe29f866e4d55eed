"""Overlapped offload of layer inputs: no tensor is read before its copy has ended or held longer than its copy needs.

Fake copies replace a GPU's streams: each copy happens only when it is waited for.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from gradient_case import Case, run_case, worst_error, write_case
from torch import nn

from longhaul_trainer import recompute
from longhaul_trainer.failures import INVALID_SPEC, JobError
from longhaul_trainer.overlapped_offload import IN_FLIGHT, OverlappedOffload
from longhaul_trainer.plan.memory import Layout
from longhaul_trainer.simulate import run

LAYERS, WIDTH = 6, 8


@dataclass
class LateCopies:
    """`wait` makes the copy; until then its target holds NaN. Names tensors in the order in which they are offloaded."""

    told: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    hosts: list[torch.Tensor] = field(default_factory=list)
    pending: dict[str, Callable[[], object]] = field(default_factory=dict)
    sources: list[weakref.ref[torch.Tensor]] = field(default_factory=list)

    def takes(self, tensor: torch.Tensor) -> bool:
        return True

    def start_out(self, tensor: torch.Tensor) -> tuple[torch.Tensor, str]:
        ticket = f"out {len(self.hosts)}"
        host = torch.full_like(tensor, torch.nan)
        source = weakref.ref(tensor)

        def copy() -> None:
            held = source()
            assert held is not None, f"{ticket} was given up before its copy had ended"
            host.copy_(held)

        self.sources.append(source)
        self.names[id(host)] = str(len(self.hosts))
        self.hosts.append(host)
        return host, self._start(ticket, copy)

    def start_back(self, host: torch.Tensor) -> tuple[torch.Tensor, str]:
        name = self.names[id(host)]
        assert f"out {name}" not in self.pending
        tensor = torch.full_like(host, torch.nan)
        return tensor, self._start(f"back {name}", lambda: tensor.copy_(host))

    def wait(self, ticket: str) -> None:
        self.told.append(f"wait {ticket}")
        if (copy := self.pending.pop(ticket, None)) is not None:
            copy()

    def _start(self, ticket: str, copy: Callable[[], object]) -> str:
        self.told.append(ticket)
        self.pending[ticket] = copy
        return ticket


class Layer(nn.Module):
    def __init__(self, copies: LateCopies, number: int) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.copies = copies
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.copies.told.append(f"layer {self.number}")
        return x + torch.tanh(self.linear(x))


def run_layers(monkeypatch: pytest.MonkeyPatch, offload: str, passes: int = 1) -> tuple[list[torch.Tensor], LateCopies]:
    """Gradients of weights and input after `passes` micro-batches, and the copies."""
    copies = LateCopies()
    monkeypatch.setattr(recompute, "OverlappedOffload", lambda: OverlappedOffload(copies))
    torch.manual_seed(0)
    layers = [Layer(copies, number) for number in range(LAYERS)]
    recompute.recompute_layers(SimpleNamespace(base_model=SimpleNamespace(layers=layers)), mode="full", offload=offload)
    start = torch.randn(4, WIDTH, requires_grad=True)
    for _ in range(passes):
        x = start * 1.0
        for layer in layers:
            x = layer(x)
        if passes == 1:
            copies.told.append("backward")
        x.square().sum().backward()
        del x
    found = [p.grad for layer in layers for p in layer.parameters()]
    return [grad for grad in (*found, start.grad) if grad is not None], copies


def test_gradients_have_the_same_bits_as_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, none = run_layers(monkeypatch, "none", passes=3)
    found, copies = run_layers(monkeypatch, "overlapped", passes=3)
    assert none.hosts == []
    assert len(copies.hosts) == 3 * LAYERS
    assert len(found) == len(plain) == 2 * LAYERS + 1
    assert all(torch.equal(one, other) for one, other in zip(found, plain, strict=True))
    assert copies.pending == {}


def test_a_copy_is_waited_for_two_layers_later_and_fetched_one_layer_early(monkeypatch: pytest.MonkeyPatch) -> None:
    _, copies = run_layers(monkeypatch, "overlapped")
    at = copies.told.index("backward")
    forward, backward = copies.told[:at], copies.told[at + 1 :]
    expected = []
    for number in range(LAYERS):
        expected += [
            f"out {number}",
            *([f"wait out {number - IN_FLIGHT}"] if number >= IN_FLIGHT else []),
            f"layer {number}",
        ]
    assert forward == expected
    # The last two inputs were never offloaded. Before a layer computes, the copy of the previous layer's input has started.
    assert backward == [
        "wait out 5",
        "layer 5",
        "wait out 4",
        "back 3",
        "layer 4",
        "wait back 3",
        "back 2",
        "layer 3",
        "wait back 2",
        "back 1",
        "layer 2",
        "wait back 1",
        "back 0",
        "layer 1",
        "wait back 0",
        "layer 0",
    ]


def test_two_inputs_at_most_stay_on_the_device() -> None:
    copies = LateCopies()
    offload = OverlappedOffload(copies)
    kept = []
    for number in range(LAYERS):
        tensor: torch.Tensor | None = torch.full((4,), float(number))
        kept.append(offload._pack(tensor))
        tensor = None
        gc.collect()
        assert sum(source() is not None for source in copies.sources) == min(number + 1, IN_FLIGHT)
    for number in reversed(range(LAYERS)):
        assert torch.equal(offload._unpack(kept[number]), torch.full((4,), float(number)))
        assert sum(one.here is not None for one in kept if not isinstance(one, torch.Tensor)) <= 1
    # A second unpack, as with a retained graph.
    assert torch.equal(offload._unpack(kept[3]), torch.full((4,), 3.0))


def test_tensors_outside_of_a_gpu_are_not_moved() -> None:
    offload = OverlappedOffload()
    tensor = torch.ones(3)
    assert offload._pack(tensor) is tensor
    assert offload._unpack(tensor) is tensor


@pytest.mark.parametrize("ac", ["full", "save_attention"])
def test_a_step_of_the_trainer_gets_the_same_gradient(
    tmp_path: Path, policy: Path, monkeypatch: pytest.MonkeyPatch, ac: str
) -> None:
    case = Case(tmp_path, policy, max_tokens=60, making={"ac": ac})
    write_case(case)
    plain, _ = run_case(case)
    copies = LateCopies()
    monkeypatch.setattr(recompute, "OverlappedOffload", lambda: OverlappedOffload(copies))
    found, _ = run_case(replace(case, making={"ac": ac, "offload": "overlapped"}))
    # Each micro-batch has two layers.
    assert len(copies.hosts) >= 8
    assert worst_error(found, plain) == 0


def test_only_kept_inputs_can_be_copied_during_the_layers() -> None:
    with pytest.raises(JobError, match="--offload activations with --overlapped") as caught:
        run(model="qwen3-0.6b", layout=Layout(tokens=64), overlaps=True)
    assert caught.value.code == INVALID_SPEC
