"""Opens a batch: checks hashes, then every rule, and returns memory-mapped arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from longhaul_trainer.batch.accounts import (
    InputPolicy,
    Minibatch,
    check_counts,
    check_lag,
    check_minibatches,
    check_pairs,
    check_sampling,
    check_trajectories,
    expected_advantages,
    experts_of,
    has_pairs,
    spread_over_tokens,
    turn_advantages,
)
from longhaul_trainer.batch.rules import check_advantages, check_offsets, check_row_trajectories, check_tokens
from longhaul_trainer.batch.tensors import map_tensors, refuse
from longhaul_trainer.directory import sha256_bytes, sha256_file
from longhaul_trainer.failures import BATCH_REFUSED, JobError, reading_code

SCHEMA = "longhaul.batch/1"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Batch:
    """R rows, T tokens. Mask, log-probability, advantage and version are stored at the label's own position."""

    offsets: Array
    input_ids: Array
    loss_mask: Array
    behaviour_logprobs: Array | None
    advantages: Array | None
    minibatches: list[Minibatch]
    temperature: float
    dropped_nonfinite: int
    # [R], trajectory of each row.
    owners: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    # bool [R], rows of experts; None if there are none.
    experts: Array | None = None

    @property
    def tokens(self) -> int:
        return len(self.input_ids)

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    def policy_tokens(self, first: int, last: int) -> Array:
        """bool, whether each token in [first, last) has a ratio: it is a loss token and not an expert's."""
        return self.are_policy_tokens(np.arange(first, last))

    def are_policy_tokens(self, tokens: Array) -> Array:
        """Like `policy_tokens`, for token indices [n] in the batch file."""
        trained = np.asarray(self.loss_mask[tokens]) == 1
        if self.experts is None:
            return trained
        return trained & ~self.experts[np.searchsorted(self.offsets, tokens, side="right") - 1]

    def row_length(self, row: int) -> int:
        return int(self.offsets[row + 1] - self.offsets[row])


def load_batch(
    directory: Path,
    *,
    manifest_sha256: str,
    stage: str,
    iteration: int,
    batch_size: int | None,
    tokenizer_sha256: str,
    vocab_size: int,
    policy: InputPolicy,
    max_policy_lag: int | None,
    token_budget: int | None = None,
    pairs: bool = False,
) -> Batch:
    """Raises JobError 65 unless the directory is exactly a batch of this job. pairs: chosen and rejected trajectories, for DPO."""
    manifest = _read_manifest(directory / "batch.json", manifest_sha256)
    try:
        _check_header(manifest, stage, iteration, tokenizer_sha256, vocab_size)
        path = directory / Path(manifest["file"]["name"]).name
        _check_file(path, manifest["file"])
        return _check_content(manifest, path, stage, (batch_size, token_budget), policy, max_policy_lag, pairs)
    except PermissionError as error:
        raise refuse(f"Cannot read {error.filename}: {error.strerror}") from error
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, OverflowError) as error:
        raise refuse(f"Expected batch.json to have every field of {SCHEMA}: {type(error).__name__} {error}") from error


def _read_manifest(path: Path, manifest_sha256: str) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise JobError(reading_code(error, BATCH_REFUSED), f"Cannot read {path}: {error.strerror}") from error
    if (found := sha256_bytes(data)) != manifest_sha256:
        raise refuse(f"Expected batch.json to hash to {manifest_sha256}, found {found}")
    try:
        manifest = json.loads(data)
    except ValueError as error:
        raise refuse(f"Expected JSON in batch.json: {error}") from error
    if not isinstance(manifest, dict):
        raise refuse("Expected an object in batch.json")
    return manifest


def _check_header(manifest: dict[str, Any], stage: str, iteration: int, tokenizer_sha256: str, vocab_size: int) -> None:
    expected = {
        "schema": SCHEMA,
        "stage": stage,
        "iteration": iteration,
        "tokenizer_sha256": tokenizer_sha256,
        "vocab_size": vocab_size,
    }
    for name, value in expected.items():
        if manifest.get(name) != value:
            raise refuse(f"Expected {name} of the batch to be {value}, found {manifest.get(name)!r}")


def _check_file(path: Path, entry: dict[str, Any]) -> None:
    size = path.stat().st_size if path.is_file() else None
    if size != entry["bytes"]:
        raise refuse(f"Expected {path.name} to have {entry['bytes']} bytes, found {size}")
    if (found := sha256_file(path)) != entry["sha256"]:
        raise refuse(f"Expected {path.name} to hash to {entry['sha256']}, found {found}")


def _check_content(
    manifest: dict[str, Any],
    path: Path,
    stage: str,
    sizes: tuple[int | None, int | None],
    policy: InputPolicy,
    lag: int | None,
    pairs: bool,
) -> Batch:
    """sizes: (batch_size in trajectories, token_budget in loss tokens); one of them is None."""
    counts = manifest["counts"]
    rows, tokens = counts["rows"], counts["tokens"]
    if not rows or not tokens:
        raise refuse(f"Expected at least one row and one token, found {rows} and {tokens}")
    tensors = map_tensors(path, stage=stage, rows=rows, tokens=tokens)
    described = {name: {"dtype": DTYPE_NAMES[t.dtype], "shape": list(t.shape)} for name, t in tensors.items()}
    if manifest["tensors"] != described:
        raise refuse(f"Expected batch.json to describe {described}, found {manifest['tensors']}")
    temperature = check_sampling(manifest["sampling"])
    check_offsets(tensors["row_offsets"], tokens=tokens, max_row_tokens=manifest["max_row_tokens"])
    check_row_trajectories(tensors["row_trajectory"], len(manifest["trajectories"]))
    policies = manifest.get("policies") or []
    experts = experts_of(manifest, stage)[tensors["row_trajectory"]]
    check_tokens(tensors, vocab_size=manifest["vocab_size"], policies=len(policies), experts=experts)
    check_trajectories(manifest, tensors)
    check_counts(manifest, int(tensors["loss_mask"].sum(dtype=np.int64)))
    if pairs != has_pairs(manifest):
        raise refuse(f"Expected a batch {'with' if pairs else 'without'} adv.pairs, found {manifest['adv']!r}")
    minibatches = check_minibatches(manifest, tensors, *sizes, pairs=pairs)
    if stage == "dapo":
        if pairs:
            check_pairs(manifest, tensors)
        own = expected_advantages(manifest)
        check_advantages(tensors, *spread_over_tokens(manifest, tensors, own, turn_advantages(manifest)))
    elif manifest.get("adv") is not None:
        raise refuse(f"Expected adv to be null in an rft batch, found {manifest['adv']!r}")
    if lag is not None and "policy_version" in tensors:
        check_lag(manifest, tensors["policy_version"], policy, lag)
    return Batch(
        offsets=np.asarray(tensors["row_offsets"]),
        input_ids=tensors["input_ids"],
        loss_mask=tensors["loss_mask"],
        behaviour_logprobs=tensors.get("behaviour_logprobs"),
        advantages=tensors.get("advantages"),
        minibatches=minibatches,
        temperature=temperature,
        dropped_nonfinite=counts.get("dropped_nonfinite", 0),
        owners=np.asarray(tensors["row_trajectory"]),
        experts=experts if experts.any() else None,
    )


DTYPE_NAMES = {np.dtype("<i8"): "I64", np.dtype("<i4"): "I32", np.dtype("<f4"): "F32", np.dtype("u1"): "U8"}
