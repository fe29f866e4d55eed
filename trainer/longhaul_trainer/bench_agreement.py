"""`agree`: computes log-probabilities and gradient norm of one batch in one layout, and stores them or compares them with a stored result.

The two layouts may differ in device, dtype, packing and context parallel ranks, not in weights and rows. The command reports differences;
the caller sets the limits.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM

from longhaul_trainer.bench import config_of
from longhaul_trainer.failures import INVALID_SPEC, JobError
from longhaul_trainer.parallel.ranks import Ranks, alone_on_a_mesh, close_ranks, open_ranks
from longhaul_trainer.plan.shapes import find_shape, read_shape
from longhaul_trainer.step.forward import Scorer, gather_rows
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights

TENSOR = "logprobs"
NORM = "gradient_norm"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class AgreeOptions:
    """Rows are random ids. Each row is half as long as the previous one, at least two tokens. `alone`: one micro-batch per row."""

    model: Path
    context: int
    rows: int
    device: str
    compute: str
    attention: str
    ac: str
    offload_activations: str
    cp: int
    alone: bool
    store: Path | None
    against: Path | None


def agree(options: AgreeOptions) -> int:
    """Prints one JSON object on the first rank. Returns 0. Raises JobError."""
    if options.against is not None and not options.against.is_file():
        raise JobError(INVALID_SPEC, f"Expected --against to be a file of log-probabilities, got {options.against}")
    if options.offload_activations != "none" and options.ac == "none":
        raise JobError(INVALID_SPEC, "Expected --ac with --offload-activations: only kept layer inputs are moved")
    compute: torch.dtype = getattr(torch, options.compute)
    ranks = _open(options, compute)
    model_options = ModelOptions(
        ranks=ranks,
        ac=options.ac,
        offload=options.offload_activations,
        attention=options.attention,
        compute=compute,
    )
    scorer = make_scorer(options.model, hugging_face_weights(options.model), model_options)
    lengths = [max(2, options.context >> row) for row in range(options.rows)]
    ids = np.random.default_rng(0).integers(0, read_shape(options.model / "config.json").vocab, sum(lengths))
    logprobs, norm = _score(scorer, ranks, lengths=lengths, ids=ids.astype(np.int32), alone=options.alone)
    ranks.sum_array(torch.from_numpy(logprobs))
    close_ranks(ranks)
    if not ranks.is_first:
        return 0
    if options.store is not None:
        save_file({TENSOR: logprobs}, options.store, metadata={NORM: repr(norm)})
    facts = {**asdict(options), "labels": sum(lengths) - len(lengths), NORM: norm, "ranks": ranks.world}
    found = None if options.against is None else compare(options.against, logprobs, norm, lengths=lengths)
    print(json.dumps({**facts, "versions": {"torch": torch.__version__}, "difference": found}, default=str))
    return 0


def _open(options: AgreeOptions, compute: torch.dtype) -> Ranks:
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1 and options.device == "cpu" and compute != torch.float32:
        # FSDP casts the weights to the compute dtype, so even one process needs a mesh.
        return alone_on_a_mesh(torch.device("cpu"))
    return open_ranks(device=options.device, world=world, cp=options.cp)


def _score(scorer: Scorer, ranks: Ranks, *, lengths: list[int], ids: Array, alone: bool) -> tuple[Array, float]:
    """This rank's log-probabilities, F32 [T], 0.0 at tokens of other ranks, and the gradient norm of their mean over all ranks."""
    logprobs = np.zeros(len(ids), dtype=np.float32)
    labels = len(ids) - len(lengths)
    rows = range(len(lengths))
    for cut in [[row] for row in rows] if alone else [list(rows)]:
        micro = gather_rows(
            cut,
            offsets=np.cumsum([0, *lengths]),
            input_ids=ids,
            label_mask=np.ones(len(ids)),
            device=ranks.device,
            cp=ranks.cp,
            cp_rank=ranks.cp_rank,
        )
        found, _ = scorer(micro, 1.0)
        (-found.sum() / labels).backward()
        logprobs[micro.index] = found.detach().float().cpu().numpy()
    norm = torch.nn.utils.clip_grad_norm_(scorer.parameters(), math.inf)
    return logprobs, float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def compare(stored: Path, logprobs: Array, norm: float, *, lengths: list[int]) -> dict[str, float]:
    """Absolute differences of log-probabilities (median, p99, max) and the relative difference of gradient norms.

    Raises JobError 64 if the stored file has another number of tokens.
    """
    with safe_open(stored, framework="np") as file:
        other: Array = file.get_tensor(TENSOR)
        other_norm = float(file.metadata()[NORM])
    if other.shape != logprobs.shape:
        raise JobError(INVALID_SPEC, f"Expected {stored} to hold {len(logprobs)} tokens, it holds {len(other)}")
    # The first token of a row is not a label.
    is_label = np.ones(len(logprobs), dtype=bool)
    is_label[np.cumsum([0, *lengths[:-1]])] = False
    gap = np.abs(other[is_label].astype(np.float64) - logprobs[is_label])
    return {
        "compared": int(is_label.sum()),
        "median": float(np.median(gap)),
        "p99": float(np.quantile(gap, 0.99)),
        "max": float(gap.max()),
        # Agreement means little without spread: two models that both answer ln(1 / vocabulary) agree.
        "spread": float(other[is_label].std()),
        "gradient": abs(norm - other_norm) / other_norm,
    }


def write_model(*, shape: str, layers: int | None, context: int, directory: Path, seed: int) -> int:
    """Writes random bf16 weights of a fresh model as a directory that any layout can load."""
    found = find_shape(shape)
    config = config_of(found if layers is None else replace(found, layers=layers), context=context)
    torch.manual_seed(seed)
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(directory)
    print(json.dumps({"parameters": sum(p.numel() for p in model.parameters()), "directory": str(directory)}))
    return 0
