"""`simulate`: one rank's step of a layout too large for the available machines, through the trainer's own code on tensors without data.

FakeTensorMode gives tensors shapes but no memory, torch's `fake` process group completes collectives at once, and FSDPMemTracker tracks
live tensors by kind. The mesh is on CPUs, because a CUDA mesh needs a driver. This module alone sets what differs on a GPU: compute in
bf16, fp32 products of the head, a fused update, layer inputs offloaded to the host. Attention uses the CPU kernel, which saves the same
output and log-sum-exp as the kernel for packed rows.

The peak is that of a step whose optimizer already has moments. It counts tensors only: no CUDA context, allocator gaps or NCCL buffers,
and not the update, which works in place.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from longhaul_trainer import head, recompute, trainable
from longhaul_trainer.batch.accounts import Minibatch
from longhaul_trainer.batch.load import Batch
from longhaul_trainer.bench import config_of
from longhaul_trainer.config import Config
from longhaul_trainer.failures import CLASSES, INVALID_SPEC, OK, JobError
from longhaul_trainer.lora import Lora
from longhaul_trainer.overlapped_offload import OverlappedOffload
from longhaul_trainer.parallel.heads import check_heads
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.plan.memory import RESERVE, Layout, predict
from longhaul_trainer.plan.shapes import find_shape
from longhaul_trainer.step.forward import MicroBatch, Scorer
from longhaul_trainer.step.progress import Silent
from longhaul_trainer.step.state import MOMENTS, TrainerState, build_optimizer
from longhaul_trainer.step.training import Step, Trainer
from longhaul_trainer.trainable import ModelOptions, make_scorer

COLLECTIVES = {
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "alltoall_base_": "all_to_all",
    "allreduce_": "all_reduce",
}


def simulate(
    *, model: str, layout: Layout, layers: int | None, overlaps: bool = False, accumulates: bool = False
) -> int:
    """Prints one JSON object. Returns 0, or 64 for an impossible model or layout."""
    try:
        found = run(model=model, layout=layout, layers=layers, overlaps=overlaps, accumulates=accumulates)
        print(json.dumps(found))
    except JobError as error:
        print(f"{CLASSES[error.code]}: {error.message}", file=sys.stderr)
        return error.code
    return OK


def run(
    *, model: str, layout: Layout, layers: int | None = None, overlaps: bool = False, accumulates: bool = False
) -> dict[str, Any]:
    """Peak bytes by kind, host bytes, collectives and checkpoint size of one micro-batch's step.

    `layout.tokens`: of the row that a context parallel group shares. `layers`: simulate fewer layers. `overlaps`: offload copies
    overlap with the layers. `accumulates`: gradients of an earlier micro-batch already exist. Raises JobError 64.
    """
    if overlaps and layout.offload != "activations":
        raise JobError(INVALID_SPEC, "Expected --offload activations with --overlapped: nothing else is copied")
    if layout.offload in ("optimizer", "both"):
        raise JobError(
            INVALID_SPEC, "Expected moments on the device: on tensors without numbers a host is no other place"
        )
    shape = find_shape(model)
    if layers is not None:
        shape = replace(shape, layers=layers)
    memory = predict(shape, layout)
    check_heads(heads=shape.heads, kv_heads=shape.kv_heads, cp=layout.cp)
    began = time.monotonic()
    with _fake_ranks(layout) as ranks, ExitStack() as stack:
        mode = stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        host = stack.enter_context(_as_on_a_gpu())
        lora = None if layout.lora_rank is None else Lora(rank=layout.lora_rank, alpha=2.0 * layout.lora_rank)
        offload = ("overlapped" if overlaps else "serial") if layout.offload == "activations" else "none"
        options = ModelOptions(ranks=ranks, lora=lora, ac=layout.ac, offload=offload)
        scorer = make_scorer(config_of(shape, context=layout.tokens), None, options)
        config = _config(layout)
        optimizer = build_optimizer(scorer.model, config)
        for group in optimizer.param_groups:
            group["fused"] = isinstance(optimizer, torch.optim.AdamW)
        trainer = _Simulated(
            mode,
            scorer=scorer,
            ranks=ranks,
            optimizer=optimizer,
            batch=_batch(layout),
            config=config,
            prox=None,
            max_tokens=layout.tokens,
            progress=Silent(),
            check_stop=lambda: None,
        )
        _make_moments(scorer, optimizer)
        if accumulates:
            # The tracker follows a single micro-batch, whose gradients add to these.
            _make_gradients(scorer)
            stack.enter_context(patch.object(optimizer, "zero_grad", lambda **_: None))
        moments = sum(_local_bytes(slots[m]) for slots in optimizer.state.values() for m in MOMENTS)
        seen = stack.enter_context(_Collectives())
        # The update works in place, but the tracker would count its fake form as allocating.
        stack.enter_context(patch.object(optimizer, "step", lambda: None))
        tracker: Any = stack.enter_context(FSDPMemTracker(scorer))
        trainer.run_step(TrainerState(global_step=0, done=0, metrics=[], alarms=[]))
        peak = {**_peak(tracker), "Moments": moments}
        weights = sum(_local_bytes(p) for p in scorer.parameters())
        collectives = seen.found
    total = sum(peak.values())
    predicted = memory.peak - RESERVE
    return {
        "model": model,
        "layout": asdict(layout),
        "parameters": shape.parameters,
        "layers": shape.layers,
        "peak_bytes": total,
        "peak_by_kind": peak,
        "predicted_without_reserve_bytes": round(predicted),
        "predicted_share": round(predicted / total, 4),
        "host_bytes": sum(host),
        "predicted_host_bytes": round(memory.waiting),
        "collectives": {name: {"count": count, "bytes": size} for name, (count, size) in sorted(collectives.items())},
        "checkpoint_bytes": (weights + moments) * layout.ranks,
        "seconds": round(time.monotonic() - began, 1),
        "versions": {"torch": torch.__version__},
    }


def _local_bytes(tensor: torch.Tensor) -> int:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.numel() * local.element_size()


def _peak(tracker: Any) -> dict[str, int]:
    (kinds,) = tracker.get_tracker_snapshot("peak").values()
    return {getattr(kind, "value", kind): int(size) for kind, size in kinds.items() if size and kind != "Total"}


def _make_moments(scorer: Scorer, optimizer: torch.optim.Optimizer) -> None:
    """Creates the optimizer's moments as a first update would."""
    _make_gradients(scorer)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _make_gradients(scorer: Scorer) -> None:
    for parameter in scorer.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)


@contextmanager
def _fake_ranks(layout: Layout) -> Iterator[Ranks]:
    """Yields the first rank of the layout; the other ranks do not exist."""
    # Registers the backend `fake`.
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=layout.ranks)
    try:
        group: Any = None if layout.cp == 1 else dist.new_group(list(range(layout.cp)), backend="fake")
        mesh = init_device_mesh("cpu", (layout.ranks,), mesh_dim_names=("world",))
        yield _FirstRank(
            device=torch.device("cpu"), rank=0, world=layout.ranks, cp=layout.cp, mesh=mesh, cp_group=group
        )
    finally:
        dist.destroy_process_group()


class _FirstRank(Ranks):
    """Reductions return this rank's own values: the fake group has no other members."""

    def _reduce(self, values: Any, operation: Any) -> list[float]:
        return list(values)


@contextmanager
def _as_on_a_gpu() -> Iterator[list[int]]:
    """Makes the CPU code allocate like a GPU's. Yields a list that receives the bytes of each tensor offloaded to the host."""
    host: list[int] = []

    @contextmanager
    def wait_on_host(**_: Any) -> Iterator[None]:
        def pack(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
            host.append(tensor.nbytes)
            return tensor.shape, tensor.dtype

        def unpack(kept: tuple[torch.Size, torch.dtype]) -> torch.Tensor:
            return torch.empty(kept[0], dtype=kept[1])

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield

    class Host:
        """Copies that complete at once and take no memory."""

        def takes(self, tensor: torch.Tensor) -> bool:
            return tensor.numel() > 0

        def start_out(self, tensor: torch.Tensor) -> tuple[Any, None]:
            host.append(tensor.nbytes)
            return (tensor.shape, tensor.dtype), None

        def start_back(self, host: Any) -> tuple[torch.Tensor, None]:
            shape, dtype = host
            return torch.empty(shape, dtype=dtype), None

        def wait(self, ticket: Any) -> None:
            pass

    def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left.new_empty((left.shape[0], right.shape[1]), dtype=torch.float32)

    with (
        patch.dict(trainable.COMPUTE, {"cpu": torch.bfloat16}),
        patch.object(head, "_product", product),
        patch.object(recompute, "save_on_cpu", wait_on_host),
        patch.object(recompute, "OverlappedOffload", lambda: OverlappedOffload(Host())),
    ):
        yield host


class _Collectives(TorchDispatchMode):
    """Counts collectives and the bytes of their full tensors, gathered or to be scattered. Every number that the host reads from a
    tensor is 1."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 1.0
        if func.namespace == "c10d":
            name: str = COLLECTIVES.get(str(func.__name__).split(".")[0], str(func.__name__))
            count, size = self.found.get(name, (0, 0))
            tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            self.found[name] = (count + 1, size + max((tensor.nbytes for tensor in tensors), default=0))
        return func(*args, **(kwargs or {}))


class _Simulated(Trainer):
    """The trainer's own step without the checks that need real numbers."""

    def __init__(self, mode: FakeTensorMode, **options: Any) -> None:
        super().__init__(**options)
        self._mode = mode

    def micro_batches(self, minibatch: int) -> Iterator[MicroBatch]:
        fake: Callable[[torch.Tensor], torch.Tensor] = self._mode.from_tensor
        for micro in super().micro_batches(minibatch):
            names = ("tokens", "positions", "row_ends", "predictors", "targets")
            yield replace(micro, **{name: fake(getattr(micro, name)) for name in names})

    def _check(self, step: Step, norm: float, n_tokens: int, state: TrainerState) -> None:
        pass

    def _clip_gradient(self) -> float:
        """Skipped: the norm takes one number per parameter, but the tracker counts DTensor's planning on full gradients as memory."""
        return 1.0


def _batch(layout: Layout) -> Batch:
    """One row of the full context for each data parallel rank."""
    rows = layout.ranks // layout.cp
    mask = np.ones(rows * layout.tokens, dtype=np.uint8)
    mask[:: layout.tokens] = 0
    part = Minibatch(first_row=0, rows=rows, loss_tokens=int(mask.sum()), trajectories=rows)
    return Batch(
        offsets=np.arange(rows + 1, dtype=np.int64) * layout.tokens,
        input_ids=np.zeros(len(mask), dtype=np.int32),
        loss_mask=mask,
        behaviour_logprobs=None,
        advantages=None,
        minibatches=[part],
        temperature=1.0,
        dropped_nonfinite=0,
    )


def _config(layout: Layout) -> Config:
    optimizer = {"name": "adamw", "lr": 1e-6, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1, "grad_clip": 1.0}
    return Config.model_validate(
        {
            "schema": "longhaul.config/1",
            "loss_version": 1,
            "seed": 0,
            "stage": "rft",
            "batch_size": layout.ranks // layout.cp,
            "optimizer_init": "fresh",
            "optimizer": {**optimizer, "states": layout.states},
            "schedule": {"kind": "constant", "warmup_steps": 0},
        }
    )
