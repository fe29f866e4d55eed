"""A batch of three trajectories in four rows, small enough to count by hand.

    row  trajectory  tokens (index)   loss mask   sampled     mini-batch
    0    b           3  (0 to 2)      0 1 1       0 1 1       0
    1    b           2  (3, 4)        0 1         0 1         0
    2    a           4  (5 to 8)      0 0 1 1     0 0 1 1     0
    3    c           3  (9 to 11)     0 1 0       0 1 1       1

Token 11 is sampled but masked, like a token with a non-finite log-probability. Rewards: g0 = {a: 1, b: 0}, g1 = {c: 2, two others: 0, 1}.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from job_files import SAMPLING, Draft

from longhaul_trainer.batch.accounts import InputPolicy
from longhaul_trainer.batch.load import Batch, load_batch

POLICY = InputPolicy(version="v000007-aaaaaaaa", manifest_sha256="a" * 64)
# Advantages of a and c. g0: mean 0.5, deviation √0.5; g1: mean 1, deviation 1; delta 0.001.
A = 0.5 / (0.5**0.5 + 1e-3)
C = 1.0 / (1.0 + 1e-3)


def make_small(stage: str = "dapo") -> Draft:
    dapo = stage == "dapo"
    mask = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0], dtype=np.uint8)
    version = np.where(mask == 1, 0, -1).astype(np.int32)
    version[11] = 0
    tensors: dict[str, np.ndarray[Any, Any]] = {
        "row_offsets": np.array([0, 3, 5, 9, 12], dtype=np.int64),
        "row_trajectory": np.array([1, 1, 0, 2], dtype=np.int32),
        "input_ids": np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1], dtype=np.int32),
        "behaviour_logprobs": np.where(mask == 1, -0.5, 0.0).astype(np.float32),
        "advantages": np.array([0, -A, -A, 0, -A, 0, 0, A, A, 0, C, 0], dtype=np.float32),
        "policy_version": version,
        "loss_mask": mask,
    }
    if not dapo:
        del tensors["advantages"]

    def trajectory(name: str, group: str, member: int, rows: int, sampled: int, masked: int, value: float) -> dict:
        return {
            "id": name,
            "group": group,
            "member": member,
            "rows": rows,
            "turns": 1,
            "sampled_tokens": sampled,
            "masked_tokens": masked,
            "disposition": "submitted",
            "advantage": value if dapo else None,
        }

    def group(name: str, rewards: list[float]) -> dict[str, Any]:
        outcomes = [int(reward > 0) for reward in rewards]
        return {"id": name, "task_id": name, "rewards": rewards, "outcomes": outcomes, "n_infra": 0, "dropped": None}

    manifest = {
        "schema": "longhaul.batch/1",
        "stage": stage,
        "run_id": "run",
        "iteration": 3,
        "tokenizer_sha256": "t" * 64,
        "vocab_size": 10,
        "max_row_tokens": 4,
        "counts": {
            "rows": 4,
            "trajectories": 3,
            "groups": 2,
            "tokens": 12,
            "loss_tokens": 6,
            "dropped_nonfinite": 1,
        },
        "sampling": dict(SAMPLING),
        "policies": [{"version": POLICY.version, "manifest_sha256": POLICY.manifest_sha256}],
        "adv": {"std": "n-1", "delta": 1e-3, "filter": "outcome"} if dapo else None,
        "minibatches": [
            {"first_row": 0, "rows": 3, "trajectories": 2, "loss_tokens": 5},
            {"first_row": 3, "rows": 1, "trajectories": 1, "loss_tokens": 1},
        ],
        "groups": [group("g0", [1.0, 0.0]), group("g1", [2.0, 0.0, 1.0])],
        "trajectories": [
            trajectory("a", "g0", 0, 1, 2, 0, A),
            trajectory("b", "g0", 1, 2, 3, 0, -A),
            trajectory("c", "g1", 0, 1, 2, 1, C),
        ],
    }
    return Draft(tensors=tensors, manifest=manifest)


def load_small(draft: Draft, root: Path, **changes: Any) -> Batch:
    """Raises JobError."""
    named: dict[str, Any] = {
        "manifest_sha256": draft.write(root),
        "stage": "dapo",
        "iteration": 3,
        "batch_size": 2,
        "tokenizer_sha256": "t" * 64,
        "vocab_size": 10,
        "policy": POLICY,
        "max_policy_lag": 0,
    }
    return load_batch(root, **{**named, **changes})
