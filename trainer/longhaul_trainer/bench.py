"""`bench`: tokens per second, peak memory and seconds by phase of training steps on random weights and rows.

Phases are those of a step, plus `prox`: log-probabilities without gradient, which a reinforcement job computes once for each token
outside its first mini-batch. `tokens_per_s` excludes `prox`, `tokens_per_s_with_prox` includes it. A process measures one shape, so
that peaks do not mix. The peak is that of tensors; on a CPU one more step, which is not timed, measures it.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, Qwen2Config, Qwen3Config

from longhaul_trainer import head
from longhaul_trainer.bench_state import measure_state
from longhaul_trainer.failures import INVALID_SPEC, JobError
from longhaul_trainer.lora import Lora
from longhaul_trainer.parallel.ranks import open_ranks
from longhaul_trainer.plan.memory import RESERVE, Layout, predict
from longhaul_trainer.plan.shapes import Shape, find_shape
from longhaul_trainer.step.forward import gather_rows
from longhaul_trainer.tensor_peak import tensor_peak
from longhaul_trainer.trainable import ModelOptions, make_scorer

COMPILERS = {"inductor": "inductor", "eager": "aot_eager"}
CONFIGS: dict[str, Any] = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}


@dataclass(frozen=True)
class BenchOptions:
    """A step has rows × context tokens. All of them except the first of each row are labels."""

    model: str
    context: int
    rows: int
    steps: int
    device: str
    head: str
    ac: str
    # One of `recompute.OFFLOADS`.
    offload_activations: str
    lora_rank: int | None
    layers: int | None
    # One of `attention.BACKENDS`.
    attention: str
    # A key of COMPILERS, or `none`. Compiles each layer's norms and feed-forward, and the head's sums. `eager` only traces them.
    compile: str
    optimizer: str
    # `separate`: a pass of its own; `first`: the step's own forward pass, as for a job's first mini-batch.
    prox: str
    # Directory in which saving and reading a training state is measured; None: not measured.
    state_in: str | None


def bench(options: BenchOptions) -> int:
    """Prints one JSON object. Raises JobError."""
    if options.state_in is not None and not Path(options.state_in).is_dir():
        raise JobError(INVALID_SPEC, f"Expected --state-in to be a directory, got {options.state_in}")
    if options.offload_activations != "none" and options.ac == "none":
        raise JobError(INVALID_SPEC, "Expected --ac with --offload-activations: only kept layer inputs are moved")
    ranks = open_ranks(device=options.device, world=1, cp=1)
    shape = find_shape(options.model)
    lora = None if options.lora_rank is None else Lora(rank=options.lora_rank, alpha=2.0 * options.lora_rank)
    model_options = ModelOptions(
        ranks=ranks,
        lora=lora,
        ac=options.ac,
        offload=options.offload_activations,
        attention=options.attention,
    )
    torch.manual_seed(0)
    if options.head == "plain":
        head.label_logprobs = plain_logprobs
    if options.compile != "none":
        compile_head(options.compile)
    scorer = make_scorer(config_of(_shape_of(shape, options), context=options.context), None, model_options)
    if options.compile != "none":
        compile_layers(scorer.model, options.compile)
    trained = [p for p in scorer.parameters() if p.requires_grad]
    is_fused = options.optimizer == "fused" and ranks.device.type == "cuda"
    optimizer = torch.optim.AdamW(trained, lr=1e-6, fused=is_fused, foreach=options.optimizer == "foreach")
    tokens = options.rows * options.context
    micro = gather_rows(
        range(options.rows),
        offsets=np.arange(options.rows + 1) * options.context,
        input_ids=np.random.default_rng(0).integers(0, shape.vocab, tokens).astype(np.int32),
        label_mask=np.ones(tokens),
        device=ranks.device,
    )
    phases = {"prox": 0.0, "forward": 0.0, "backward": 0.0, "optimizer": 0.0}

    def play() -> list[float]:
        """One step. Returns when each phase began, and when the last one ended."""
        times = [_now(ranks.device)]
        if options.prox == "separate":
            with torch.no_grad():
                scorer(micro, 1.0)
        times.append(_now(ranks.device))
        logprobs, _ = scorer(micro, 1.0)
        times.append(_now(ranks.device))
        (-logprobs.sum() / len(micro.index)).backward()
        times.append(_now(ranks.device))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(_now(ranks.device))
        return times

    # Warm-up: it creates kernels, caches and moments.
    play()
    for _ in range(options.steps):
        times = play()
        for at, name in enumerate(phases):
            phases[name] += times[at + 1] - times[at]
    if options.prox == "first":
        phases["prox"] = 0.0
    whole = sum(phases.values())
    seconds = whole - phases["prox"]
    memory = predict(_shape_of(shape, options), _layout_of(options, tokens))
    if ranks.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated()
    else:
        moments = (value for values in optimizer.state.values() for value in values.values())
        peak = tensor_peak(play, kept=[*scorer.parameters(), *scorer.buffers(), *filter(torch.is_tensor, moments)])
    state = None
    if options.state_in is not None:
        directory = Path(options.state_in)
        state = measure_state(directory, model=scorer.model, optimizer=optimizer, ranks=ranks)
    print(
        json.dumps(
            {
                **asdict(options),
                "parameters": sum(p.numel() for p in scorer.parameters()),
                "tokens_per_s": round(tokens * options.steps / seconds, 1),
                "tokens_per_s_with_prox": round(tokens * options.steps / whole, 1),
                "seconds": {name: round(value / options.steps, 4) for name, value in phases.items()},
                "peak_bytes": peak,
                "predicted_bytes": round(memory.peak),
                "predicted_without_reserve_bytes": round(memory.peak - RESERVE),
                "state": state,
                "versions": {"torch": torch.__version__, "device": _device_name(ranks.device)},
            }
        )
    )
    return 0


def compile_layers(model: Any, mode: str) -> None:
    """Compiles norms and feed-forward of each layer in place. Attention is not compiled: its collectives must keep their order."""
    for layer in model.base_model.layers:
        for part in (layer.input_layernorm, layer.post_attention_layernorm, layer.mlp):
            part.forward = torch.compile(part.forward, backend=COMPILERS[mode])


def compile_head(mode: str) -> None:
    """Compiles the running sums over a vocabulary chunk in place."""
    head.fold_chunk = torch.compile(head.fold_chunk, backend=COMPILERS[mode])


def plain_logprobs(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, temperature: float, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """All logits at once: the baseline for the chunked head. Arguments and results as those of `head.label_logprobs`."""
    logprobs = torch.log_softmax((hidden @ weight.T).float() / temperature, -1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs.gather(1, targets[:, None])[:, 0], entropy


def config_of(shape: Shape, *, context: int) -> Any:
    """Raises JobError 64 for a model family that the trainer does not support."""
    if shape.family not in CONFIGS:
        raise JobError(INVALID_SPEC, f"Expected a model of {', '.join(CONFIGS)}, this shape is one of {shape.family}")
    explicit = {} if shape.family == "qwen2" else {"head_dim": shape.head_dim}
    return CONFIGS[shape.family](
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        intermediate_size=shape.intermediate,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=shape.is_tied,
        max_position_embeddings=context,
        **explicit,
    )


def _shape_of(shape: Shape, options: BenchOptions) -> Shape:
    return replace(shape, layers=options.layers or shape.layers)


def _layout_of(options: BenchOptions, tokens: int) -> Layout:
    return Layout(
        tokens=tokens,
        ac=options.ac,
        offload="none" if options.offload_activations == "none" else "activations",
        lora_rank=options.lora_rank,
        compute_bytes=2 if options.device == "cuda" else 4,
    )


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
