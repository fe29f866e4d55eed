"""Policy directory: servers load it, and the next job may start from it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from longhaul_trainer.directory import json_bytes, share
from longhaul_trainer.hf_model import TOKENIZER_FILES
from longhaul_trainer.lora import is_adapter
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.parallel.shard import whole_tensors
from longhaul_trainer.weight_files import write_index

GENERATION = "generation_config.json"
END_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copies byte for byte: a rewritten tokenizer could give stored texts other token ids."""
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def copy_generation_ids(source: Path, target: Path) -> None:
    """Copies only the bos, eos and pad ids: servers would silently sample with other fields of the file."""
    if not (source / GENERATION).is_file():
        return
    given = json.loads((source / GENERATION).read_text())
    (target / GENERATION).write_bytes(json_bytes({name: given[name] for name in END_IDS if name in given}))


def copy_architecture(source: Path, target: Path) -> None:
    target.mkdir()
    shutil.copyfile(source / "config.json", target / "config.json")
    copy_tokenizer(source, target)
    copy_generation_ids(source, target)


def round_weights(model: Any, dtype: torch.dtype) -> None:
    """Rounds in place and keeps fp32: the canary must hold the log-probabilities of a server of the rounded file."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(dtype).float())


def policy_weights(model: Any, dtype: torch.dtype, ranks: Ranks) -> dict[str, torch.Tensor]:
    """Full weights in `dtype` on the first rank, without adapters: call `merge_adapters` first. A collective."""
    named = ((name, p.detach().to(dtype)) for name, p in model.named_parameters() if not is_adapter(name))
    return whole_tensors(named, ranks)


def write_policy(
    directory: Path, *, model: Any, weights: dict[str, torch.Tensor], dtype: torch.dtype, architecture: Path
) -> None:
    """Writes weights, an unchanged tokenizer and a config that old and new engines can read."""
    model.save_pretrained(directory, state_dict=weights)
    for file in directory.glob("*.safetensors"):
        share(file)
    (directory / GENERATION).unlink(missing_ok=True)
    write_index(directory)
    copy_tokenizer(architecture, directory)
    copy_generation_ids(architecture, directory)
    finish_config(directory, dtype)


def finish_config(directory: Path, dtype: torch.dtype) -> None:
    path = directory / "config.json"
    config = {**json.loads(path.read_text()), "dtype": str(dtype).removeprefix("torch.")}
    path.write_bytes(json_bytes(with_both_rope_forms(config)))


def with_both_rope_forms(config: dict[str, Any]) -> dict[str, Any]:
    """Adds `rope_theta` and `rope_scaling`, which engines before transformers 5 read. Without them they silently use defaults."""
    rope = config.get("rope_parameters")
    if not isinstance(rope, dict) or "rope_theta" not in rope:
        return config
    config = {**config, "rope_theta": rope["rope_theta"]}
    if rope.get("rope_type", "default") != "default":
        config["rope_scaling"] = {name: value for name, value in rope.items() if name != "rope_theta"}
    return config
