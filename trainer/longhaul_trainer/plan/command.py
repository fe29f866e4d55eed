"""`plan`: prints memory per rank and tokens in flight with the arithmetic, in milliseconds and without torch."""

from __future__ import annotations

import json
import sys
from typing import Any

from longhaul_trainer.failures import CLASSES, OK, OUT_OF_MEMORY, JobError
from longhaul_trainer.parallel.heads import check_heads
from longhaul_trainer.plan.memory import GIB, Layout, Memory, predict
from longhaul_trainer.plan.shapes import Shape, find_shape


def plan(*, model: str, layout: Layout, memory_gib: float, as_json: bool) -> int:
    """Prints the plan. Returns 0, 64 for an impossible layout, 78 for one that does not fit into memory."""
    try:
        shape = find_shape(model)
        check_heads(heads=shape.heads, kv_heads=shape.kv_heads, cp=layout.cp)
        memory = predict(shape, layout)
    except JobError as error:
        print(f"{CLASSES[error.code]}: {error.message}", file=sys.stderr)
        return error.code
    fits = memory.peak <= memory_gib * GIB
    if as_json:
        print(json.dumps({"model": model, "parameters": shape.parameters, "fits": fits, **describe(memory)}))
    else:
        print(as_text(model, shape, layout, memory))
        print(
            f"{'fits' if fits else 'does not fit'} into {memory_gib:g} GiB, {memory.peak / memory_gib / GIB:.0%} of it"
        )
    return OK if fits else OUT_OF_MEMORY


def describe(memory: Memory) -> dict[str, Any]:
    return {
        "peak_bytes": round(memory.peak),
        "host_bytes": round(memory.host),
        "checkpoint_copy_bytes": round(memory.copied),
        "tokens_in_flight": memory.tokens_in_flight,
        "terms": [{"name": t.name, "arithmetic": t.arithmetic, "bytes": round(t.bytes)} for t in memory.terms],
    }


def as_text(model: str, shape: Shape, layout: Layout, memory: Memory) -> str:
    lines = [
        f"{model}: {shape.parameters / 1e9:.2f}e9 parameters, {shape.layers} layers",
        f"{layout.ranks} ranks: {layout.ranks // layout.cp} data parallel × {layout.cp} context parallel; "
        f"{layout.tokens:,} tokens a micro-batch, {memory.tokens_in_flight:,} in flight",
        *(f"  {t.bytes / GIB:8.1f} GiB  {t.name}: {t.arithmetic}" for t in memory.terms),
        f"  {memory.peak / GIB:8.1f} GiB  peak of one rank (±15 %)",
    ]
    waiting = f", and {memory.waiting / GIB:.1f} of what waits there" if memory.waiting else ""
    lines.append(f"  {memory.host / GIB:8.1f} GiB  of each rank on the host: the copy of a checkpoint{waiting}")
    return "\n".join(lines)
