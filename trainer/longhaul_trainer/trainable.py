"""Prepares a model for training: builds it on the meta device, shards it, then fills it slice by slice.

A directory of weights, a checkpoint and random weights take the same path, in one process and on many ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForCausalLM

from longhaul_trainer import attention
from longhaul_trainer.hf_model import UnsupportedModel, check_layers
from longhaul_trainer.lora import Lora, adopt_lora, fill_adapters, is_adapter
from longhaul_trainer.parallel.heads import check_heads
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.parallel.shard import shard_model
from longhaul_trainer.recompute import recompute_layers
from longhaul_trainer.rope import Yarn, apply_yarn
from longhaul_trainer.step.forward import Scorer
from longhaul_trainer.weight_files import WeightFiles

# Families whose logits are the head applied to the last hidden state and whose attention takes our keywords.
FAMILIES = ("llama", "qwen2", "qwen3")
COMPUTE = {"cpu": torch.float32, "cuda": torch.bfloat16}


@dataclass(frozen=True)
class ModelOptions:
    """Settings of a trainable model beside architecture and weights. `seed` fills fresh adapters."""

    ranks: Ranks
    rope: Yarn | None = None
    lora: Lora | None = None
    ac: str = "none"
    # One of `recompute.OFFLOADS`.
    offload: str = "none"
    seed: int = 0
    # One of `attention.BACKENDS`.
    attention: str = attention.AUTO
    # Dtype of the forward and backward pass; None: the default of the device. One process on a CPU without a mesh always uses fp32.
    compute: torch.dtype | None = None


def make_scorer(architecture: Path | Any, weights: WeightFiles | None, options: ModelOptions) -> Scorer:
    """architecture: a directory with config.json, or a config. weights: None for random weights.

    Raises UnsupportedModel, OSError or ValueError; JobError 64 if the context parallel degree does not fit the heads, 69 if the
    requested attention is not available.
    """
    config = AutoConfig.from_pretrained(architecture) if isinstance(architecture, Path) else architecture
    check_layers(config, architecture)
    if config.model_type not in FAMILIES:
        raise UnsupportedModel(f"Expected a model of {', '.join(FAMILIES)}, got {config.model_type} [{architecture}]")
    ranks = options.ranks
    compute = options.compute or COMPUTE[ranks.device.type]
    attention.prepare_attention(options.attention, device=ranks.device, compute=compute)
    apply_yarn(config, options.rope)
    check_heads(heads=config.num_attention_heads, kv_heads=config.num_key_value_heads, cp=ranks.cp)
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention.NAME)
    # A pad id in the config would make the embedding drop that row's gradient, although a policy may sample the token.
    model.get_input_embeddings().padding_idx = None
    model.eval()
    if options.lora is not None:
        adopt_lora(model, options.lora)
    recompute_layers(model, mode=options.ac, offload=options.offload)
    scorer = Scorer(model, cp_group=ranks.cp_group, attention=options.attention)
    shard_model(scorer, model, ranks, compute=compute)
    scorer.to_empty(device=ranks.device)
    if config.tie_word_embeddings:
        model.tie_weights()
    _fill_buffers(model)
    if weights is None:
        _fill_random(model)
    else:
        fill_weights(model, weights, seed=options.seed)
    return scorer


def fill_weights(model: Any, weights: WeightFiles, *, seed: int = 0, keeps_frozen: bool = False) -> None:
    """Fills the model; each rank reads its own rows. Files without adapters leave fresh ones. `keeps_frozen`: the model keeps frozen
    weights that the files lack.

    Raises ValueError if names or shapes differ from the model's.
    """
    parameters = dict(model.named_parameters())
    if not any(is_adapter(name) for name in weights.places):
        fill_adapters(model, seed=seed)
        parameters = {name: parameter for name, parameter in parameters.items() if not is_adapter(name)}
    known = set(parameters) | ({"lm_head.weight"} if model.config.tie_word_embeddings else set())
    if keeps_frozen:
        parameters = {name: p for name, p in parameters.items() if p.requires_grad or name in weights.places}
    odd = sorted((set(parameters) - set(weights.places)) | (set(weights.places) - known))
    if odd:
        raise ValueError(f"Expected the weights of {model.config.model_type}, found a difference at {odd[:3]}")
    with weights.reading(), torch.no_grad():
        for name, parameter in parameters.items():
            local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            local.copy_(weights.read_like(name, parameter))


def _fill_random(model: Any) -> None:
    """Normal matrices, ones for norms, zeros for biases, as in a fresh model. Uses torch's global seed."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            if parameter.ndim >= 2:
                local.normal_(0.0, model.config.initializer_range)
            else:
                local.fill_(0.0 if name.endswith("bias") else 1.0)


def _fill_buffers(model: Any) -> None:
    """Recomputes the rotary tables, which no checkpoint contains, on the CPU in fp32, as in a freshly built model."""
    for path, module in model.named_modules():
        buffers = dict(module.named_buffers(recurse=False))
        if not buffers:
            continue
        if "inv_freq" not in buffers:
            raise UnsupportedModel(f"Expected no buffers but rotary tables, found {sorted(buffers)} in {path}")
        fresh: nn.Module = type(module)(config=model.config)
        for name, buffer in fresh.named_buffers(recurse=False):
            module.register_buffer(name, buffer.to(buffers[name].device), persistent=False)
