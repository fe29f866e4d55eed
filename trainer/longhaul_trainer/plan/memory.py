"""Predicted bytes of one rank at the peak of a step, term by term. Within ±15 % of the peaks it was compared with; not guaranteed.

Those are prime-rl's published peaks (benchmarks/results/BENCHMARKS.md): Qwen3-4B, all weights, 8 GPUs, 65k: 36.1 GiB; Qwen3-0.6B, all
weights, one GPU: 19.6; Qwen3-4B with adapters, one GPU: 42.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from longhaul_trainer.failures import INVALID_SPEC, JobError
from longhaul_trainer.plan.shapes import Shape

GIB = 1 << 30
# CUDA's context, gaps of the allocator, communication buffers.
RESERVE = 4 * GIB
# Four fp32 copies of the logits of one chunk of the head (1,024 × 8,192): softmax temporaries.
HEAD_CHUNK = 4 * 1024 * 8192 * 4


@dataclass(frozen=True)
class Layout:
    """`tokens`: of one micro-batch, over all its context parallel ranks."""

    tokens: int
    ranks: int = 1
    cp: int = 1
    ac: str = "full"
    offload: str = "none"
    states: str = "float32"
    lora_rank: int | None = None
    # Bytes of a number in the forward and backward pass: bf16 on GPUs, fp32 on CPUs.
    compute_bytes: int = 2


@dataclass(frozen=True)
class Term:
    name: str
    arithmetic: str
    bytes: float


@dataclass(frozen=True)
class Memory:
    """`terms` sum to `peak`. Memory that is not in use at the peak is left out."""

    terms: list[Term]
    peak: float
    # On the host: offloaded activations and moments, and the copy from which a checkpoint is written while training continues.
    waiting: float
    copied: float
    tokens_in_flight: int

    @property
    def host(self) -> float:
        return self.waiting + self.copied


def predict(shape: Shape, layout: Layout) -> Memory:
    """Raises JobError 64 if cp does not divide the ranks."""
    if layout.ranks % layout.cp:
        raise JobError(INVALID_SPEC, f"Expected cp to divide {layout.ranks} ranks, got {layout.cp}")
    width = layout.compute_bytes
    local = -(-layout.tokens // layout.cp)
    states, host_states = _states(shape, layout)
    kept, host_kept = _kept(shape, layout, local)
    working = width * (6 * shape.intermediate + 14 * shape.hidden) * local
    unit, gathered = _gathered(shape, layout)
    each = _head_bytes(layout)
    layer = Term(
        "one layer at work",
        f"{width}·(6·{shape.intermediate} + 14·{shape.hidden})·{local} + {gathered} {unit:,}",
        working + unit,
    )
    top = Term(
        "head at work",
        f"{each}·{shape.vocab}·{shape.hidden} + one chunk",
        each * shape.vocab * shape.hidden + HEAD_CHUNK,
    )
    passes = [kept, max(layer, top, key=lambda term: term.bytes)]
    update = _update(shape, layout)
    # The update runs after the passes have freed their memory.
    at_work = [update] if update.bytes > sum(term.bytes for term in passes) else passes
    terms = [states, *at_work, Term("reserve", "context, gaps, buffers", RESERVE)]
    return Memory(
        terms=terms,
        peak=sum(term.bytes for term in terms),
        waiting=host_states + host_kept,
        copied=_checkpoint(shape, layout) / layout.ranks,
        tokens_in_flight=layout.ranks // layout.cp * layout.tokens,
    )


def _gathered(shape: Shape, layout: Layout) -> tuple[int, str]:
    """Bytes beside a layer's activations, and their name. Frozen weights have no gradients. With them the head's gathered weights count
    too: a tied head stays gathered during the whole pass, and an untied one is gathered next to the last layer."""
    if layout.ranks == 1 and layout.compute_bytes == 4:
        return 0, "gathered weights"
    if layout.lora_rank is None:
        return 10 * shape.layer_parameters, "its gathered weights and gradients"
    weights = layout.compute_bytes * (shape.layer_parameters + shape.vocab * shape.hidden)
    return weights, "its gathered weights and the head's"


def _head_bytes(layout: Layout) -> int:
    """Bytes per weight of the head: the gathered weight, its fp32 copy, and its gradient unless the head is frozen."""
    if layout.lora_rank is None:
        return 8
    return 6 if layout.compute_bytes == 2 else 4


def _states(shape: Shape, layout: Layout) -> tuple[Term, float]:
    """Device term and host bytes: weights and gradients in fp32, two moments in fp32 or bf16. With adapters, frozen fp32 weights."""
    moments = 4 if layout.states == "bfloat16" else 8
    is_hosted = layout.offload in ("optimizer", "both")
    each = 8 + (0 if is_hosted else moments)
    if layout.lora_rank is None:
        total = shape.parameters
        text = f"{each}·{total:,} / {layout.ranks}"
        return Term(
            "weights, gradients, moments", text, each * total / layout.ranks
        ), moments * total / layout.ranks * is_hosted
    adapters = shape.adapter_parameters(layout.lora_rank)
    text = f"(4·{shape.parameters:,} + {each}·{adapters:,}) / {layout.ranks}"
    needed = (4 * shape.parameters + each * adapters) / layout.ranks
    return Term("frozen weights, adapters", text, needed), moments * adapters / layout.ranks * is_hosted


def _checkpoint(shape: Shape, layout: Layout) -> float:
    """Bytes of the final checkpoint: weights in fp32 and both moments; with adapters also the frozen weights."""
    moments = 4 if layout.states == "bfloat16" else 8
    if layout.lora_rank is None:
        return (4 + moments) * shape.parameters
    return 4 * shape.parameters + (4 + moments) * shape.adapter_parameters(layout.lora_rank)


def _update(shape: Shape, layout: Layout) -> Term:
    """Torch's fused AdamW works in place. LeanAdamW, for moments in bf16 or on the host, holds six fp32 numbers per element of one
    parameter: both moments, the divisor, and temporaries of stochastic rounding."""
    is_in_place = layout.states == "float32" and layout.offload not in ("optimizer", "both")
    largest = shape.largest_parameter if layout.lora_rank is None else layout.lora_rank * shape.intermediate
    return Term(
        "update of the largest parameter",
        "in place" if is_in_place else f"24·{largest:,} / {layout.ranks}",
        0.0 if is_in_place else 24 * largest / layout.ranks,
    )


def _kept(shape: Shape, layout: Layout, local: int) -> tuple[Term, float]:
    """Device term and host bytes of the activations that layers keep for the backward pass."""
    width = layout.compute_bytes
    boundary = width * shape.hidden * local
    # Attention outputs are as wide as all heads together, in Qwen3 wider than the hidden states.
    outputs = width * shape.heads * shape.head_dim * local * (layout.ac == "save_attention")
    if layout.ac == "none":
        each = width * (6 * shape.intermediate + 14 * shape.hidden) * local
        return Term("activations of all layers", f"{shape.layers}·{each:,}", shape.layers * each), 0.0
    if layout.offload in ("activations", "both"):
        # Two inputs are on the device at a time; attention outputs are not offloaded.
        text = f"2 of {shape.layers} inputs of {boundary:,}, the others on the host"
        if outputs:
            text += f"; {shape.layers} attention outputs of {outputs:,}"
        return Term("layer inputs", text, 2 * boundary + outputs * shape.layers), boundary * shape.layers
    wide = f"({shape.hidden} + {shape.heads}·{shape.head_dim})" if outputs else f"{shape.hidden}"
    text = f"1·{width}·{wide}·{shape.layers}·{local}"
    return Term("layer inputs", text, (boundary + outputs) * shape.layers), 0.0
