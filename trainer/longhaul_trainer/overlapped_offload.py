"""Offloads layer inputs to the host and overlaps the copies with computation, on separate CUDA streams.

A device orders work within one stream only, so the streams synchronise explicitly. A copy to the host starts after the layer that
produced the input, and the input keeps its memory until the compute stream waits for that copy. A copy back starts one layer early, into
memory allocated by the compute stream, and the layer waits for it. `save_on_cpu` copies on the compute stream, which then idles.
"""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.autograd.graph import saved_tensors_hooks

# Inputs whose copy to the host may be in flight. The planner counts the same two on the device.
IN_FLIGHT = 2


class Copies(Protocol):
    """Starts copies and makes the computation wait for them. `host`: the tensor's copy on the host; `ticket`: a started copy."""

    def takes(self, tensor: torch.Tensor) -> bool: ...

    def start_out(self, tensor: torch.Tensor) -> tuple[Any, Any]: ...

    def start_back(self, host: Any) -> tuple[torch.Tensor, Any]: ...

    def wait(self, ticket: Any) -> None: ...


class StreamCopies:
    """Copies of one GPU. Only the compute stream allocates and frees device memory, so the host, which runs ahead of the device, cannot
    allocate more of it than the computation would."""

    def __init__(self) -> None:
        self._out: torch.cuda.Stream | None = None
        self._back: torch.cuda.Stream | None = None

    def takes(self, tensor: torch.Tensor) -> bool:
        return tensor.is_cuda and tensor.numel() > 0

    def start_out(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        self._out = self._out or torch.cuda.Stream(tensor.device)
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return host, _copy(self._out, tensor, to=host, device=tensor.device)

    def start_back(self, host: torch.Tensor) -> tuple[torch.Tensor, Any]:
        device = torch.device("cuda", torch.cuda.current_device())
        self._back = self._back or torch.cuda.Stream(device)
        # Allocated on the compute stream: the copy starts only after earlier uses of this memory.
        tensor = torch.empty(host.shape, dtype=host.dtype, device=device)
        return tensor, _copy(self._back, host, to=tensor, device=device)

    def wait(self, ticket: Any) -> None:
        torch.cuda.current_stream().wait_event(ticket)


def _copy(
    stream: torch.cuda.Stream, source: torch.Tensor, *, to: torch.Tensor, device: torch.device
) -> torch.cuda.Event:
    """Starts a copy after all work queued on the compute stream so far. Returns the event that ends it."""
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        to.copy_(source, non_blocking=True)
    event = torch.cuda.Event()
    event.record(stream)
    return event


@dataclass(eq=False)
class _Kept:
    """A saved layer input. `here`: the tensor on the device while a copy in either direction needs it; `ticket`: that copy;
    `before`: the input saved before it."""

    host: Any
    here: torch.Tensor | None
    ticket: Any
    before: weakref.ref[_Kept] | None


class OverlappedOffload:
    """Saved-tensor hooks shared by all layers of a model. The forward pass fills it, the backward pass empties it."""

    def __init__(self, copies: Copies | None = None) -> None:
        self._copies = copies or StreamCopies()
        self._leaving: deque[_Kept] = deque()
        self._newest: weakref.ref[_Kept] | None = None

    def hooks(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self._pack, self._unpack)

    def _pack(self, tensor: torch.Tensor) -> _Kept | torch.Tensor:
        if not self._copies.takes(tensor):
            return tensor
        host, ticket = self._copies.start_out(tensor)
        kept = _Kept(host=host, here=tensor, ticket=ticket, before=self._newest)
        self._newest = weakref.ref(kept)
        self._leaving.append(kept)
        while len(self._leaving) > IN_FLIGHT:
            self._leave(self._leaving.popleft())
        return kept

    def _leave(self, kept: _Kept) -> None:
        """Frees the device memory for work queued after the copy."""
        self._copies.wait(kept.ticket)
        kept.here = None

    def _unpack(self, kept: _Kept | torch.Tensor) -> torch.Tensor:
        if isinstance(kept, torch.Tensor):
            return kept
        if kept in self._leaving:
            self._leaving.remove(kept)
        self._fetch(kept)
        found = kept.here
        assert found is not None
        self._copies.wait(kept.ticket)
        # From here on the backward pass holds the tensor. A second unpack fetches it again.
        kept.here = None
        # Prefetch the previous layer's input while this layer computes.
        before = None if kept.before is None else kept.before()
        if before is not None:
            self._fetch(before)
        return found

    def _fetch(self, kept: _Kept) -> None:
        if kept.here is None:
            kept.here, kept.ticket = self._copies.start_back(kept.host)
