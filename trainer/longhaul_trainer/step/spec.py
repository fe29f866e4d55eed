"""spec.json: which job, from what, to where, and how it is executed on this attempt."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from longhaul_trainer.failures import INVALID_SPEC, JobError
from longhaul_trainer.fields import Fields

SCHEMA = "longhaul.step/1"
WINDOW_SCHEMA = "longhaul.window/1"
SHA256 = re.compile(r"[0-9a-f]{64}")
STAGES = ("rft", "dapo")


@dataclass(frozen=True)
class Execution:
    """Unhashed: how, not what. Another layout may change results within rounding, never in meaning."""

    device: str
    deterministic: bool
    max_tokens_per_micro: int
    inner_every: int
    threads: int | None
    grace_s: float
    # No progress for this long ends the job; ranks wait for each other a little less. 0 = the trainer's own limit.
    stall_s: float
    nodes: int
    ranks_per_node: int
    cp: int
    # Activation checkpointing, and what waits on the host: see `recompute` and `lean_adamw`.
    ac: str
    offload: str

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def offloads_activations(self) -> bool:
        return self.offload in ("activations", "both")

    @property
    def offloads_optimizer(self) -> bool:
        return self.offload in ("optimizer", "both")

    def layout(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "ranks": self.ranks,
            "cp": self.cp,
            "deterministic": self.deterministic,
            "max_tokens_per_micro": self.max_tokens_per_micro,
            "threads": self.threads,
        }


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """What every kind of job has."""

    job_id: str
    key: str
    input_path: Path
    input_sha256: str
    job_dir: Path
    execution: Execution
    attempt: int
    fence: int


@dataclass(frozen=True, kw_only=True)
class WindowSpec(JobSpec):
    """Log-probabilities of a policy beyond its native window, as `step.window` writes them: no batch, no step."""

    window_path: Path
    window_uri: str


@dataclass(frozen=True, kw_only=True)
class Spec(JobSpec):
    stage: str
    run_id: str
    iteration: int
    global_step: int
    input_kind: str
    batch_path: Path
    batch_sha256: str
    config_path: Path
    config_sha256: str
    checkpoint_path: Path
    checkpoint_uri: str
    policy_path: Path
    policy_uri: str
    policy_version: str
    scratch_dir: Path

    @property
    def parents(self) -> dict[str, str]:
        return {
            "input_manifest_sha256": self.input_sha256,
            "batch_manifest_sha256": self.batch_sha256,
            "config_sha256": self.config_sha256,
        }


def job_key(*, input_sha256: str, batch_sha256: str, config_sha256: str) -> str:
    """Identity of a job: hashes of file bytes only, so that no JSON canonicalisation is shared between languages."""
    text = f"longhaul-step/1\n{input_sha256}\n{batch_sha256}\n{config_sha256}\n"
    return hashlib.sha256(text.encode()).hexdigest()


def window_key(*, input_sha256: str) -> str:
    return hashlib.sha256(f"longhaul-window/1\n{input_sha256}\n".encode()).hexdigest()


def read_spec(path: Path) -> Spec | WindowSpec:
    """Raises JobError 64 with the first thing that is wrong."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise JobError(INVALID_SPEC, f"Cannot read spec {path}: {error.strerror}") from error
    except ValueError as error:
        raise JobError(INVALID_SPEC, f"Expected JSON in {path}: {error}") from error
    is_window = isinstance(value, dict) and value.get("schema") == WINDOW_SCHEMA
    return parse_window_spec(value) if is_window else parse_spec(value)


def parse_window_spec(value: Any) -> WindowSpec:
    top = Fields(value, where="spec", code=INVALID_SPEC)
    top.choice("schema", (WINDOW_SCHEMA,))
    given, output, work = top.inner("input"), top.inner("output"), top.inner("work")
    uri = output.text("window_uri")
    spec = WindowSpec(
        job_id=top.text("job_id"),
        key=_sha256(top, "key"),
        input_path=_path(given, "uri"),
        input_sha256=_sha256(given, "manifest_sha256"),
        window_path=local_path(uri, "output.window_uri"),
        window_uri=uri,
        job_dir=Path(work.text("job_dir")),
        execution=_execution(top.inner("execution")),
        attempt=top.whole("attempt"),
        fence=top.whole("fence"),
    )
    for fields in (given, output, work, top):
        fields.finish()
    if spec.key != (key := window_key(input_sha256=spec.input_sha256)):
        raise JobError(INVALID_SPEC, f"Expected key {key} from the input's hash, got {spec.key}")
    if spec.job_id != (expected := f"window-{key[:16]}"):
        raise JobError(INVALID_SPEC, f"Expected job_id {expected}, got {spec.job_id}")
    return spec


def parse_spec(value: Any) -> Spec:
    top = Fields(value, where="spec", code=INVALID_SPEC)
    top.choice("schema", (SCHEMA,))
    stage = top.choice("stage", STAGES)
    run, given, batch = top.inner("run"), top.inner("input"), top.inner("batch")
    config, output, work = top.inner("config"), top.inner("output"), top.inner("work")
    checkpoint_uri, policy_uri = output.text("checkpoint_uri"), output.text("policy_uri")
    spec = Spec(
        job_id=top.text("job_id"),
        key=_sha256(top, "key"),
        stage=stage,
        run_id=run.text("id"),
        iteration=run.whole("iteration"),
        global_step=run.whole("global_step"),
        input_kind=given.choice("kind", ("hf", "checkpoint")),
        input_path=_path(given, "uri"),
        input_sha256=_sha256(given, "manifest_sha256"),
        batch_path=_path(batch, "uri"),
        batch_sha256=_sha256(batch, "manifest_sha256"),
        config_path=_path(config, "uri"),
        config_sha256=_sha256(config, "sha256"),
        checkpoint_path=local_path(checkpoint_uri, "output.checkpoint_uri"),
        checkpoint_uri=checkpoint_uri,
        policy_path=local_path(policy_uri, "output.policy_uri"),
        policy_uri=policy_uri,
        policy_version=output.text("policy_version"),
        job_dir=Path(work.text("job_dir")),
        scratch_dir=Path(work.text("scratch_dir")),
        execution=_execution(top.inner("execution")),
        attempt=top.whole("attempt"),
        fence=top.whole("fence"),
    )
    for fields in (run, given, batch, config, output, work, top):
        fields.finish()
    _check_identity(spec)
    return spec


def _execution(fields: Fields) -> Execution:
    # Bounds that the launcher keeps; read here so that a mistyped one is found before the job runs.
    fields.number("timeout_s", 0.0)
    execution = Execution(
        stall_s=fields.number("stall_s", 0.0),
        device=fields.choice("device", ("cpu", "cuda")),
        deterministic=fields.flag("deterministic", False),
        max_tokens_per_micro=fields.whole("max_tokens_per_micro", 8192, least=1),
        inner_every=fields.whole("inner_every", 1, least=1),
        threads=fields.whole("threads", None, least=1),
        grace_s=fields.number("grace_s", 30.0),
        nodes=fields.whole("nodes", 1, least=1),
        ranks_per_node=fields.whole("ranks_per_node", 1, least=1),
        cp=fields.whole("cp", 1, least=1),
        ac=fields.choice("ac", ("none", "full", "save_attention"), "none"),
        offload=fields.choice("offload", ("none", "activations", "optimizer", "both"), "none"),
    )
    if execution.ranks % execution.cp:
        fields.refuse(f"Expected execution.cp to divide nodes × ranks_per_node = {execution.ranks}, got {execution.cp}")
    if execution.offloads_activations and execution.ac == "none":
        fields.refuse("Expected execution.ac with execution.offload of activations: only kept layer inputs are moved")
    if execution.offloads_optimizer and execution.device == "cpu":
        fields.refuse("Expected execution.offload without optimizer on a CPU: its states are on the host already")
    fields.finish()
    return execution


def _check_identity(spec: Spec) -> None:
    key = job_key(input_sha256=spec.input_sha256, batch_sha256=spec.batch_sha256, config_sha256=spec.config_sha256)
    if spec.key != key:
        raise JobError(INVALID_SPEC, f"Expected key {key} from the three hashes, got {spec.key}")
    if spec.job_id != (expected := f"{spec.stage}-{key[:16]}"):
        raise JobError(INVALID_SPEC, f"Expected job_id {expected}, got {spec.job_id}")
    if not re.fullmatch(rf"v\d{{6}}-{key[:8]}", spec.policy_version):
        raise JobError(INVALID_SPEC, f"Expected policy_version v<6 digits>-{key[:8]}, got {spec.policy_version}")


def local_path(uri: str, where: str) -> Path:
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise JobError(INVALID_SPEC, f"Expected {where} to be an absolute file:// uri, got {uri}")
    return Path(unquote(parts.path))


def _path(fields: Fields, name: str) -> Path:
    return local_path(fields.text(name), f"{fields.where}.{name}")


def _sha256(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if not SHA256.fullmatch(value):
        fields.refuse(f"Expected `{name}` in {fields.where} to be a SHA-256 in hex, got {value!r:.80}")
    return value
