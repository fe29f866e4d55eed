"""Weights of an export: a policy's unchanged; a checkpoint's rounded, with adapters merged, holding one shard in memory at a time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM

from longhaul_trainer.directory import Sealed
from longhaul_trainer.failures import INPUT_UNUSABLE, JobError
from longhaul_trainer.lora import is_adapter
from longhaul_trainer.rope import Yarn, apply_yarn
from longhaul_trainer.step.export import copy_generation_ids, copy_tokenizer, finish_config
from longhaul_trainer.step.state import HF, checkpoint_weights
from longhaul_trainer.weight_files import INDEX, WeightFiles, hugging_face_weights, write_index, write_shards

NEEDED = ("config.json", "tokenizer.json")
LORA_A, LORA_B = "lora_a", "lora_b"


def copy_policy(sealed: Sealed, staging: Path) -> dict[str, Any]:
    """Copies the files of a policy. Raises JobError 66 if the directory has no complete model."""
    source = sealed.path
    model, weights = _open_model(source, rope=None, find=hugging_face_weights)
    with weights.reading():
        _check_shapes(model, weights, source)
    for path in sorted({path for parts in weights.places.values() for path, _ in parts}):
        shutil.copyfile(path, staging / path.name)
    if (source / INDEX).is_file():
        shutil.copyfile(source / INDEX, staging / INDEX)
    write_index(staging)
    shutil.copyfile(source / "config.json", staging / "config.json")
    _copy_texts(source, staging)
    config = json.loads((source / "config.json").read_text())
    # Publishing the policy already merged its adapters.
    return {"dtype": config.get("dtype", config.get("torch_dtype")), "merged_adapters": False}


def write_checkpoint(sealed: Sealed, staging: Path, *, dtype: str) -> dict[str, Any]:
    """Writes the rounded weights of a checkpoint. Raises JobError 66 if it is incomplete or does not state the scale of its adapters."""
    source, manifest = sealed.path, sealed.manifest
    model, weights = _open_model(source / HF, rope=manifest.get("rope"), find=lambda _: checkpoint_weights(source))
    has_adapters = any(is_adapter(name) for name in weights.places)
    if has_adapters and "lora" not in manifest:
        raise JobError(
            INPUT_UNUSABLE,
            f"Expected {source} to say how its adapters are scaled: it was made before checkpoints did; export its policy",
        )
    lora = manifest.get("lora")
    scale = 0.0 if lora is None else lora["alpha"] / lora["rank"]
    kind = getattr(torch, dtype)
    with weights.reading():
        _check_shapes(model, weights, source)
        sizes = {name: parameter.numel() * kind.itemsize for name, parameter in model.named_parameters()}
        write_shards(staging, sizes, lambda name: _merged(weights, name, scale).to(kind))
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(staging)
    finish_config(staging, kind)
    _copy_texts(source / HF, staging)
    return {"dtype": dtype, "merged_adapters": has_adapters}


def _open_model(source: Path, *, rope: dict[str, Any] | None, find: Any) -> tuple[Any, WeightFiles]:
    """The model on the meta device, and the files of its weights."""
    for name in NEEDED:
        if not (source / name).is_file():
            raise JobError(INPUT_UNUSABLE, f"Expected {name} in {source}")
    try:
        config = AutoConfig.from_pretrained(source)
        apply_yarn(config, None if rope is None else Yarn(**rope))
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config), find(source)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise JobError(INPUT_UNUSABLE, f"Expected a causal language model in {source}: {error}") from error


def _check_shapes(model: Any, weights: WeightFiles, source: Path) -> None:
    """Raises JobError 66 if names or shapes differ: from_pretrained would fill a missing weight at random and only warn."""
    expected = {name: list(parameter.shape) for name, parameter in model.named_parameters(remove_duplicate=False)}
    tied = set(expected) - {name for name, _ in model.named_parameters()}
    found = {name: weights.shape(name) for name in weights.places if not is_adapter(name)}
    odd = sorted((set(expected) - tied - set(found)) | (set(found) - set(expected)))
    odd += sorted(name for name in set(expected) & set(found) if expected[name] != found[name])
    if odd:
        raise JobError(INPUT_UNUSABLE, f"Expected the weights of its config.json in {source}, a difference is {odd[0]}")


def _merged(weights: WeightFiles, name: str, scale: float) -> torch.Tensor:
    """The weight with its adapter merged in fp32, exactly as `merge_adapters` does."""
    weight = weights.read_whole(name)
    stem = name.removesuffix("weight")
    if f"{stem}{LORA_A}" in weights.places:
        weight.add_(weights.read_whole(f"{stem}{LORA_B}") @ weights.read_whole(f"{stem}{LORA_A}"), alpha=scale)
    return weight


def _copy_texts(source: Path, staging: Path) -> None:
    copy_tokenizer(source, staging)
    copy_generation_ids(source, staging)
