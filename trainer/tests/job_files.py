"""Writes complete jobs (input, batch, config, spec) in the pipeline's format, and runs them."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from longhaul_trainer.hf_model import load_model
from longhaul_trainer.step.spec import job_key, window_key

TRAINER = Path(__file__).resolve().parent.parent
ORDER = (
    "row_offsets",
    "row_trajectory",
    "input_ids",
    "behaviour_logprobs",
    "advantages",
    "policy_version",
    "loss_mask",
)
NAMES = {"int64": "I64", "int32": "I32", "float32": "F32", "uint8": "U8"}
SAMPLING = {
    "temperature": 1.0,
    "top_p": 1,
    "top_k": -1,
    "min_p": 0,
    "repetition_penalty": 1,
    "logprobs_mode": "processed_logprobs",
}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode_tensors(tensors: dict[str, np.ndarray[Any, Any]]) -> bytes:
    header: dict[str, Any] = {}
    at = 0
    for name, value in tensors.items():
        header[name] = {
            "dtype": NAMES[str(value.dtype)],
            "shape": list(value.shape),
            "data_offsets": [at, at + value.nbytes],
        }
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return struct.pack("<Q", len(text)) + text + b"".join(value.tobytes() for value in tensors.values())


@dataclass
class Draft:
    """A batch before it is written, which tests can manipulate."""

    tensors: dict[str, np.ndarray[Any, Any]]
    manifest: dict[str, Any]
    edit_bytes: Callable[[bytes], bytes] = field(default=lambda data: data)

    def write(self, directory: Path) -> str:
        directory.mkdir(parents=True, exist_ok=True)
        data = self.edit_bytes(encode_tensors(self.tensors))
        (directory / "batch.safetensors").write_bytes(data)
        tensors = {name: {"dtype": NAMES[str(t.dtype)], "shape": list(t.shape)} for name, t in self.tensors.items()}
        manifest = {
            "tensors": tensors,
            **self.manifest,
            "file": {"name": "batch.safetensors", "bytes": len(data), "sha256": sha256(data)},
        }
        text = json.dumps(manifest, indent=1).encode()
        (directory / "batch.json").write_bytes(text)
        return sha256(text)


def score_rows(policy: Path, rows: list[list[int]], temperature: float = 1.0) -> list[list[float]]:
    """Reference log-probabilities by transformers' own forward pass, one row at a time; 0.0 at the first token."""
    model = load_model(policy, device=torch.device("cpu"))
    result = []
    with torch.no_grad():
        for row in rows:
            logits = model(input_ids=torch.tensor([row])).logits[0, :-1].double() / temperature
            picked = torch.log_softmax(logits, -1).gather(1, torch.tensor(row[1:])[:, None])[:, 0]
            result.append([0.0, *picked.tolist()])
    return result


def make_draft(
    policy: Path, *, stage: str, groups: int = 4, size: int = 4, batch_size: int = 8, seed: int = 0, longest: int = 60
) -> Draft:
    """`groups` × `size` random episodes with mixed outcomes, their true log-probabilities and advantages."""
    rng = np.random.default_rng(seed)
    vocab = json.loads((policy / "config.json").read_text())["vocab_size"]
    manifest_sha = sha256((policy / "MANIFEST.json").read_bytes())
    rows, masks, entries, group_entries = [], [], [], []
    for group in range(groups):
        outcomes = [int((member + group) % size < size // 2) for member in range(size)]
        rewards = [outcome - 0.05 * member for member, outcome in enumerate(outcomes)]
        mean, std = np.mean(rewards), np.std(rewards, ddof=1)
        group_entries.append(
            {
                "id": f"g{group}",
                "task_id": f"t{group}",
                "rewards": rewards,
                "outcomes": outcomes,
                "n_infra": 0,
                "dropped": None,
            }
        )
        for member in range(size):
            length = int(rng.integers(12, longest))
            ids = rng.integers(0, vocab, length).astype(np.int32)
            mask = (rng.random(length) < 0.4).astype(np.uint8)
            mask[0], mask[-1] = 0, 1
            rows.append(ids)
            masks.append(mask)
            entries.append(
                {
                    "id": f"e{group:02d}-{member:02d}",
                    "group": f"g{group}",
                    "member": member,
                    "rows": 1,
                    "turns": 3,
                    "sampled_tokens": int(mask.sum()),
                    "masked_tokens": 0,
                    "disposition": "submitted",
                    "advantage": float((rewards[member] - mean) / (std + 1e-6)) if stage == "dapo" else None,
                }
            )
    order = rng.permutation(len(rows))
    lengths = np.array([len(rows[at]) for at in order])
    mask = np.concatenate([masks[at] for at in order])
    scores = score_rows(policy, [rows[at].tolist() for at in order])
    logprobs = np.where(mask == 1, np.concatenate(scores), 0.0).astype(np.float32)
    owner = np.repeat(order, lengths)
    tensors: dict[str, np.ndarray[Any, Any]] = {
        "row_offsets": np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        "row_trajectory": order.astype(np.int32),
        "input_ids": np.concatenate([rows[at] for at in order]),
        "behaviour_logprobs": logprobs,
        "policy_version": np.where(mask == 1, 0, -1).astype(np.int32),
        "loss_mask": mask,
    }
    if stage == "dapo":
        values = np.array([entry["advantage"] for entry in entries])
        tensors["advantages"] = np.where(mask == 1, values[owner], 0.0).astype(np.float32)
    tensors = {name: tensors[name] for name in ORDER if name in tensors}
    manifest = {
        "schema": "longhaul.batch/1",
        "stage": stage,
        "run_id": "test",
        "iteration": 0,
        "tokenizer_sha256": sha256((policy / "tokenizer.json").read_bytes()),
        "vocab_size": vocab,
        "max_row_tokens": 512,
        "counts": {
            "rows": len(rows),
            "trajectories": len(rows),
            "groups": groups,
            "tokens": int(lengths.sum()),
            "loss_tokens": int(mask.sum()),
            "dropped_nonfinite": 0,
        },
        "sampling": dict(SAMPLING),
        "policies": [{"version": f"v000000-{manifest_sha[:8]}", "manifest_sha256": manifest_sha}],
        "adv": {"std": "n-1", "delta": 1e-6, "filter": "outcome"} if stage == "dapo" else None,
        "minibatches": cut_minibatches(tensors, batch_size),
        "groups": group_entries,
        "trajectories": entries,
    }
    return Draft(tensors=tensors, manifest=manifest)


def cut_minibatches(tensors: dict[str, np.ndarray[Any, Any]], batch_size: int) -> list[dict[str, int]]:
    """Mini-batches of near-equal size, for trajectories of one row each."""
    count = len(tensors["row_trajectory"])
    parts = max(1, int(count / batch_size + 0.5))
    result, row = [], 0
    for part in range(parts):
        rows = count // parts + (part < count % parts)
        span = slice(int(tensors["row_offsets"][row]), int(tensors["row_offsets"][row + rows]))
        tokens = int(tensors["loss_mask"][span].sum())
        result.append({"first_row": row, "rows": rows, "trajectories": rows, "loss_tokens": tokens})
        row += rows
    return result


def make_config(stage: str, **changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = {
        "schema": "longhaul.config/1",
        "loss_version": 1,
        "seed": 7,
        "stage": stage,
        "batch_size": 8,
        "epochs": 2,
        "optimizer_init": "fresh",
        "optimizer": {
            "name": "adamw",
            "lr": 1e-3,
            "betas": [0.9, 0.95],
            "eps": 1e-8,
            "weight_decay": 0.0,
            "grad_clip": 1.0,
        },
        "schedule": {"kind": "constant", "warmup_steps": 0},
        "rope": None,
        "export": {"dtype": "float32"},
        "canary": {"positions": 32},
    }
    if stage == "dapo":
        config["max_policy_lag"] = 0
        config["objective"] = {
            "profile": "safe",
            "prox": "recompute",
            "correction": "tis",
            "tis_cap": 2.0,
            "seq_mask": "none",
            "dual_clip": 3.0,
            "clip_low": 0.2,
            "clip_high": 0.28,
        }
    return {**config, **changes}


@dataclass
class JobFiles:
    root: Path
    spec: dict[str, Any]

    @property
    def job_dir(self) -> Path:
        return Path(self.spec["work"]["job_dir"])

    @property
    def checkpoint(self) -> Path:
        return Path(self.spec["output"]["checkpoint_uri"].removeprefix("file://"))

    @property
    def policy(self) -> Path:
        return Path(self.spec["output"]["policy_uri"].removeprefix("file://"))

    def write(self, **changes: Any) -> Path:
        path = self.root / f"spec.{changes.get('fence', self.spec['fence'])}.json"
        path.write_text(json.dumps({**self.spec, **changes}))
        return path

    def exit_report(self, fence: int = 1) -> dict[str, Any]:
        return json.loads((self.job_dir / "attempts" / str(fence) / "exit.json").read_text())

    def events(self, fence: int = 1) -> list[dict[str, Any]]:
        text = (self.job_dir / "attempts" / str(fence) / "progress.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def make_job(
    root: Path,
    policy: Path,
    draft: Draft,
    config: dict[str, Any],
    *,
    kind: str = "hf",
    global_step: int = 0,
    execution: dict[str, Any] | None = None,
) -> JobFiles:
    """Writes batch and config below `root` and returns the job. `policy`: the input directory."""
    root.mkdir(parents=True, exist_ok=True)
    batch_sha = draft.write(root / "batch")
    text = json.dumps(config).encode()
    (root / "config.json").write_bytes(text)
    input_sha = sha256((policy / "MANIFEST.json").read_bytes())
    key = job_key(input_sha256=input_sha, batch_sha256=batch_sha, config_sha256=sha256(text))
    version = f"v{global_step + 1:06d}-{key[:8]}"
    spec = {
        "schema": "longhaul.step/1",
        "job_id": f"{config['stage']}-{key[:16]}",
        "key": key,
        "stage": config["stage"],
        "run": {"id": "test", "iteration": 0, "global_step": global_step},
        "input": {"kind": kind, "uri": f"file://{policy}", "manifest_sha256": input_sha},
        "batch": {"uri": f"file://{root / 'batch'}", "manifest_sha256": batch_sha},
        "config": {"uri": f"file://{root / 'config.json'}", "sha256": sha256(text)},
        "output": {
            "checkpoint_uri": f"file://{root / 'checkpoints' / version}",
            "policy_uri": f"file://{root / 'policies' / version}",
            "policy_version": version,
        },
        "work": {"job_dir": str(root / "job"), "scratch_dir": str(root / "scratch")},
        "execution": {
            "device": "cpu",
            "nodes": 1,
            "ranks_per_node": 1,
            "cp": 1,
            "deterministic": True,
            "max_tokens_per_micro": 256,
            "ac": "none",
            "offload": "none",
            "timeout_s": 600,
            "stall_s": 120,
            "grace_s": 10,
            "threads": 1,
            **(execution or {}),
        },
        "attempt": 1,
        "fence": 1,
    }
    return JobFiles(root=root, spec=spec)


def make_window_job(root: Path, policy: Path, *, execution: dict[str, Any] | None = None) -> JobFiles:
    """A job without a step: log-probabilities of `policy` beyond its native window."""
    root.mkdir(parents=True, exist_ok=True)
    input_sha = sha256((policy / "MANIFEST.json").read_bytes())
    key = window_key(input_sha256=input_sha)
    spec = {
        "schema": "longhaul.window/1",
        "job_id": f"window-{key[:16]}",
        "key": key,
        "input": {"uri": f"file://{policy}", "manifest_sha256": input_sha},
        "output": {"window_uri": f"file://{root / 'window'}"},
        "work": {"job_dir": str(root / "job")},
        "execution": {"device": "cpu", "deterministic": True, "stall_s": 120, "threads": 1, **(execution or {})},
        "attempt": 1,
        "fence": 1,
    }
    return JobFiles(root=root, spec=spec)


def die_with_parent() -> None:
    """Runs in the child before exec, so that a killed test run leaves no process behind (Linux, PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def launch(spec_path: Path, *flags: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-m", "longhaul_trainer", "step", "--spec", str(spec_path), *flags]
    return subprocess.Popen(
        command,
        cwd=TRAINER,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
