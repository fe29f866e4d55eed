"""The ranks of one job: their layout, and the reductions and exchanges between them.

A job of one process on a CPU opens no process group: every method is the identity, and torch.distributed is not used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from longhaul_trainer.directory import Sealed
from longhaul_trainer.failures import INTERNAL, INVALID_SPEC, UNAVAILABLE, JobError, LostRanks, io_code

# Environment variables in which torchrun and every cluster launcher give a process its rank.
PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
# Flags and counts travel over gloo, in GPU jobs too.
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}


@dataclass(frozen=True)
class Ranks:
    """`cp` adjacent ranks share each row (context parallel). These groups take different micro-batches (data parallel)."""

    device: torch.device
    rank: int = 0
    world: int = 1
    cp: int = 1
    # One dimension with all ranks, over which parameters are sharded. None in a job of one process on a CPU.
    mesh: DeviceMesh | None = None
    cp_group: dist.ProcessGroup | None = None

    @property
    def dp(self) -> int:
        return self.world // self.cp

    @property
    def dp_rank(self) -> int:
        return self.rank // self.cp

    @property
    def cp_rank(self) -> int:
        return self.rank % self.cp

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes the files that the job writes once."""
        return self.rank == 0

    def sums(self, values: Sequence[float]) -> list[float]:
        """Each value summed over all ranks, in float64; counts below 2^53 are exact."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def maxima(self, values: Sequence[float]) -> list[float]:
        return self._reduce(values, dist.ReduceOp.MAX)

    def any(self, flag: bool) -> bool:
        """True on every rank if it is true on one. A rank that acted alone would leave the others waiting for ever."""
        return self.maxima([float(flag)])[0] > 0

    def sum_array(self, values: torch.Tensor) -> torch.Tensor:
        """Sums a CPU tensor over all ranks, in place."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def sum_over_row(self, values: torch.Tensor) -> torch.Tensor:
        """Sums a CPU tensor over the context parallel ranks that share rows, in place."""
        if self.cp > 1:
            dist.all_reduce(values, group=self.cp_group)
        return values

    def barrier(self) -> None:
        # A reduction on the CPU group. Unlike NCCL's barrier it needs no device and blocks the host.
        self.any(False)

    def gather(self, value: Any) -> list[Any]:
        """The JSON values of all ranks, in rank order, on every rank. Tuples become lists."""
        own = _as_bytes(value)
        if self.world == 1:
            return [_from_bytes(own)]
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world)]
        dist.all_gather(sizes, torch.tensor([own.numel()]))
        # Padded to the longest: all_gather needs equal sizes.
        longest = max(int(size) for size in sizes)
        found = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.world)]
        dist.all_gather(found, torch.nn.functional.pad(own, (0, longest - own.numel())))
        return [_from_bytes(data[: int(size)]) for data, size in zip(found, sizes, strict=True)]

    def first(self, work: Callable[[], Any]) -> Any:
        """Runs `work` on the first rank only. Every rank returns its JSON result, or raises its JobError."""
        if self.world == 1:
            return work()
        answer: Any = None
        failure: Exception | None = None
        if self.is_first:
            try:
                answer = _as_bytes([None, work()])
            except JobError as error:
                answer, failure = _as_bytes([[error.code, error.message], None]), error
            except Exception as error:
                # With its own code: another rank's report may be read for the first one's.
                code = io_code(error) or INTERNAL
                answer, failure = _as_bytes([[code, f"The first rank failed: {error}"], None]), error
        problem, result = _from_bytes(_from_first(answer))
        if failure is not None:
            raise failure
        if problem is not None:
            raise JobError(*problem)
        return result

    def first_sealed(self, work: Callable[[], Sealed]) -> Sealed:
        """Like `first`, for a sealed directory."""
        found = self.first_found(work)
        assert found is not None
        return found

    def first_found(self, work: Callable[[], Sealed | None]) -> Sealed | None:
        """Like `first`, for a sealed directory that may be missing."""
        found = self.first(lambda: _sealed_fields(work()))
        return None if found is None else Sealed(path=Path(found[0]), sha256=found[1], manifest=found[2])

    def _reduce(self, values: Sequence[float], operation: Any) -> list[float]:
        if self.world == 1:
            return list(values)
        tensor = torch.tensor(list(values), dtype=torch.float64)
        dist.all_reduce(tensor, op=operation)
        return tensor.tolist()


def _sealed_fields(sealed: Sealed | None) -> list[Any] | None:
    return None if sealed is None else [str(sealed.path), sealed.sha256, sealed.manifest]


def _as_bytes(value: Any) -> torch.Tensor:
    """Encodes as JSON. With pickles, an attacker on one rank's connection could run code in the others.

    Raises JobError 70 for a value that JSON cannot represent.
    """
    try:
        data = json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise JobError(INTERNAL, f"Ranks exchange JSON values: {error}") from error
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _from_bytes(data: torch.Tensor) -> Any:
    return json.loads(data.numpy().tobytes())


def _from_first(data: torch.Tensor | None) -> torch.Tensor:
    """The first rank's bytes, on every rank. The other ranks pass None."""
    size = torch.tensor([0 if data is None else data.numel()])
    dist.broadcast(size, src=0)
    found = torch.zeros(int(size), dtype=torch.uint8) if data is None else data
    dist.broadcast(found, src=0)
    return found


def is_placed() -> bool:
    """Whether a launcher started this process and set its rank."""
    return all(name in os.environ for name in PLACE)


def open_ranks(*, device: str, world: int, cp: int, timeout_s: float = 600.0) -> Ranks:
    """Joins the ranks of the job. `world` = nodes × ranks_per_node of the spec.

    Raises JobError 64 if the launcher started another number of processes, 69 if a device is missing or the rendezvous fails.
    """
    if world % cp:
        raise JobError(INVALID_SPEC, f"Expected execution.cp to divide nodes × ranks_per_node = {world}, got {cp}")
    if device == "cuda" and not torch.cuda.is_available():
        raise JobError(UNAVAILABLE, "Expected a CUDA device, found none")
    started = int(os.environ["WORLD_SIZE"]) if is_placed() else 1
    if started != world:
        raise JobError(
            INVALID_SPEC, f"Expected {world} processes (nodes × ranks_per_node), the launcher started {started}"
        )
    if world == 1:
        return Ranks(device=torch.device(device)) if device == "cpu" else alone_on_a_mesh(torch.device("cuda", 0))
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if device == "cuda":
        if local >= torch.cuda.device_count():
            raise JobError(
                UNAVAILABLE, f"Expected a CUDA device {local} for rank {rank}, found {torch.cuda.device_count()}"
            )
        torch.cuda.set_device(local)
    try:
        dist.init_process_group(BACKENDS[device], timeout=timedelta(seconds=timeout_s))
        mesh = init_device_mesh(device, (world,), mesh_dim_names=("world",))
    except (RuntimeError, ValueError) as error:
        raise LostRanks(f"Cannot join {world} processes as rank {rank}: {error}") from error
    return Ranks(
        device=torch.device("cuda", local) if device == "cuda" else torch.device(device),
        rank=rank,
        world=world,
        cp=cp,
        mesh=mesh,
        cp_group=_context_group(rank=rank, world=world, cp=cp, timeout_s=timeout_s),
    )


def alone_on_a_mesh(device: torch.device) -> Ranks:
    """A mesh of one process. On a GPU, FSDP needs it to keep fp32 master weights beside bf16 compute."""
    store = dist.HashStore()  # pyright: ignore[reportPrivateImportUsage]
    dist.init_process_group(BACKENDS[device.type], store=store, rank=0, world_size=1)
    return Ranks(device=device, mesh=init_device_mesh(device.type, (1,), mesh_dim_names=("world",)))


def _context_group(*, rank: int, world: int, cp: int, timeout_s: float) -> dist.ProcessGroup | None:
    """The group of adjacent ranks that share rows; adjacent ranks keep the all-to-all within a node. Every rank must create every group."""
    if cp == 1:
        return None
    mine: Any = None
    for first in range(0, world, cp):
        # Without this timeout a lost peer would be noticed after torch's ten minutes instead of the job's timeout.
        group = dist.new_group(list(range(first, first + cp)), timeout=timedelta(seconds=timeout_s))
        if first <= rank < first + cp:
            mine = group
    return mine


def close_ranks(ranks: Ranks) -> None:
    if ranks.mesh is not None and dist.is_initialized():
        dist.destroy_process_group()
