"""The most memory that tensors use at once on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def tensor_peak(work: Callable[[], Any], *, kept: Iterable[torch.Tensor]) -> int:
    """The most bytes that tensors use at once during `work`, with those of `kept`, which exist before it.

    The resident set of the process is no measure of this: allocator and libraries keep what tensors have freed, and two runs of one
    shape differ by a hundred mebibytes. `work` must not free a tensor that existed before, unless it is replaced by an equal one.
    """
    before = sum(storage.nbytes() for storage in {id(s): s for s in map(torch.Tensor.untyped_storage, kept)}.values())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    results: Any = profiled.profiler
    changes = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    used = peak = before
    for change in sorted(changes, key=lambda event: event.start_ns()):
        used += change.nbytes()
        peak = max(peak, used)
    return peak
