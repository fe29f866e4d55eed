"""`adapter`: exports the LoRA adapters of a checkpoint in PEFT's layout. They fit only the base that was frozen in training."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from longhaul_trainer.directory import Sealed, TornDirectory, fsync_path, json_bytes, open_sealed, sha256_file, share
from longhaul_trainer.failures import CLASSES, INPUT_UNUSABLE, OK, OUTPUT_UNWRITABLE, JobError, io_code
from longhaul_trainer.lora import TARGETS, is_adapter
from longhaul_trainer.staging import staging_beside
from longhaul_trainer.step.state import checkpoint_weights
from longhaul_trainer.weight_files import WeightFiles, hugging_face_weights

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
# PEFT's prefix of parameter names of a causal language model.
PREFIX = "base_model.model."
LETTERS = {"lora_a": "lora_A.weight", "lora_b": "lora_B.weight"}


@dataclass(frozen=True)
class AdapterBase:
    """The frozen model: its directory, and its name and revision on a hub."""

    directory: Path
    name: str
    revision: str


def adapter(*, checkpoint: Path, base: AdapterBase, target: Path, expected_sha256: str | None = None) -> int:
    """Prints the files' hashes as JSON. Returns 0; 66 for a source that is not sealed or has no adapters of this base; 73 for a target
    that exists or is not writable; 74 for another I/O error."""
    try:
        files = write_adapter(
            checkpoint=checkpoint.absolute(), base=base, target=target.absolute(), expected_sha256=expected_sha256
        )
    except JobError as error:
        print(f"{CLASSES[error.code]}: {error.message}", file=sys.stderr)
        return error.code
    except Exception as error:
        if (code := io_code(error, [checkpoint.absolute(), base.directory.absolute()])) is None:
            raise
        print(f"{CLASSES[code]}: {error}", file=sys.stderr)
        return code
    print(json_bytes(files).decode().replace("\n", ""))
    return OK


def write_adapter(*, checkpoint: Path, base: AdapterBase, target: Path, expected_sha256: str | None) -> dict[str, str]:
    """Returns file name → SHA-256. Raises JobError or OSError and leaves no `target` then."""
    sealed = _open(checkpoint, "checkpoint", expected_sha256)
    lora = sealed.manifest.get("lora")
    if lora is None:
        raise JobError(INPUT_UNUSABLE, "Expected a policy that was trained with adapters: all of its weights were")
    if "rope" in sealed.manifest:
        raise JobError(INPUT_UNUSABLE, "Expected the base's own rope: adapters alone would lose the one of the recipe")
    weights = checkpoint_weights(sealed.path)
    frozen = hugging_face_weights(_open(base.directory, "policy").path)
    if target.exists():
        raise JobError(OUTPUT_UNWRITABLE, f"Expected {target} to be free")
    with staging_beside(target, work="adapter") as staging, weights.reading(), frozen.reading():
        _check_frozen(weights, frozen, base)
        tensors = {
            f"{PREFIX}{stem}.{LETTERS[kind]}": weights.read_whole(f"{stem}.{kind}").contiguous()
            for stem, _, kind in (name.rpartition(".") for name in weights.places if is_adapter(name))
        }
        save_file(tensors, staging / WEIGHTS, metadata={"format": "pt"})
        share(staging / WEIGHTS)
        (staging / CONFIG).write_bytes(json_bytes(_config(lora, base)))
        files = {name: sha256_file(staging / name) for name in (CONFIG, WEIGHTS)}
        for name in files:
            fsync_path(staging / name)
        staging.rename(target)
    return files


def _open(path: Path, kind: str, expected_sha256: str | None = None) -> Sealed:
    try:
        sealed = open_sealed(path, expected_sha256=expected_sha256)
    except TornDirectory as error:
        raise JobError(INPUT_UNUSABLE, str(error)) from error
    if sealed.manifest.get("kind") != kind:
        raise JobError(INPUT_UNUSABLE, f"Expected a {kind} in {path}, its manifest says {sealed.manifest.get('kind')}")
    return sealed


def _check_frozen(weights: WeightFiles, frozen: WeightFiles, base: AdapterBase) -> None:
    """Raises JobError 66 unless the checkpoint's frozen weights equal the base's. A job that started from a merged policy froze others."""
    for name in weights.places:
        if is_adapter(name):
            continue
        is_equal = (
            name in frozen.places
            and weights.shape(name) == frozen.shape(name)
            and torch.equal(weights.read_whole(name).float(), frozen.read_whole(name).float())
        )
        if not is_equal:
            raise JobError(
                INPUT_UNUSABLE,
                f"Expected adapters on {base.name}, {name} of the checkpoint is another: adapters of an earlier job were "
                "merged into it and not kept. Publish the whole policy, without --adapter",
            )


def _config(lora: dict[str, Any], base: AdapterBase) -> dict[str, Any]:
    """adapter_config.json for PEFT 0.21; older versions read the same keys."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base.name,
        "revision": base.revision,
        "r": lora["rank"],
        "lora_alpha": lora["alpha"],
        "lora_dropout": 0.0,
        "target_modules": list(TARGETS),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
    }
