"""spec.json: identity, inputs, outputs and execution of one attempt at a job."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator

from longhaul_trainer.failures import INVALID_SPEC, JobError, reading_code
from longhaul_trainer.strict import Count, NotNegative, Strict, Whole, expected, explain

Kind = TypeVar("Kind", bound="JobSpec")
WINDOW_SCHEMA = "longhaul.window/1"


def _check_uri(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ValueError
    # A path with `#` or `?` that nobody encoded would end there, and name another place.
    if parts.query or parts.fragment or "\0" in unquote(parts.path):
        raise ValueError
    return uri


def _path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), expected("a SHA-256 in hex")]
FileUri = Annotated[str, AfterValidator(_check_uri), expected("an absolute file:// uri")]


class Execution(Strict):
    """How the job runs; not part of its key. Another layout changes results only within rounding."""

    device: Literal["cpu", "cuda"]
    deterministic: bool = False
    max_tokens_per_micro: Count = 8192
    # Inner checkpoints come at multiples of this many steps, and at least this many seconds apart.
    inner_every: Count = 1
    inner_every_s: NotNegative = 0.0
    threads: Count | None = None
    # The launcher enforces these two. They are declared here so that a wrong value fails before the job runs.
    timeout_s: NotNegative = 0.0
    grace_s: NotNegative = 30.0
    # Seconds without progress after which the job ends. Ranks wait for each other slightly less. 0: the trainer's own limit.
    stall_s: NotNegative = 0.0
    nodes: Count = 1
    ranks_per_node: Count = 1
    cp: Count = 1
    # Activation checkpointing, and what is offloaded to the host: see `recompute` and `lean_adamw`.
    ac: Literal["none", "full", "save_attention"] = "none"
    offload: Literal["none", "activations", "optimizer", "both"] = "none"

    @model_validator(mode="after")
    def _check_layout(self) -> Execution:
        if self.ranks % self.cp:
            raise ValueError(f"Expected execution.cp to divide nodes × ranks_per_node = {self.ranks}, got {self.cp}")
        if self.offloads_activations and self.ac == "none":
            raise ValueError(
                "Expected execution.ac with execution.offload of activations: only kept layer inputs are moved"
            )
        if self.offloads_optimizer and self.device == "cpu":
            raise ValueError(
                "Expected execution.offload without optimizer on a CPU: its states are on the host already"
            )
        return self

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def offloads_activations(self) -> bool:
        return self.offload in ("activations", "both")

    @property
    def activation_offload(self) -> str:
        """The mode of `recompute`. Never `overlapped`, which is not proven on a GPU yet."""
        return "serial" if self.offloads_activations else "none"

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


class Directory(Strict):
    """A directory of the artifact store, identified by the hash of its manifest."""

    uri: FileUri
    manifest_sha256: Sha256

    @property
    def path(self) -> Path:
        return _path_of(self.uri)


class Input(Directory):
    kind: Literal["hf", "checkpoint"]


class ConfigFile(Strict):
    uri: FileUri
    sha256: Sha256

    @property
    def path(self) -> Path:
        return _path_of(self.uri)


class RunPlace(Strict):
    id: str
    iteration: Whole
    # Optimizer steps already in the input.
    global_step: Whole


class Output(Strict):
    checkpoint_uri: FileUri
    policy_uri: FileUri
    policy_version: str

    @property
    def checkpoint_path(self) -> Path:
        return _path_of(self.checkpoint_uri)

    @property
    def policy_path(self) -> Path:
        return _path_of(self.policy_uri)


class WindowOutput(Strict):
    window_uri: FileUri

    @property
    def window_path(self) -> Path:
        return _path_of(self.window_uri)


class WindowWork(Strict):
    job_dir: str


class Work(WindowWork):
    scratch_dir: str


class JobSpec(Strict):
    """Fields of every kind of job."""

    job_id: str
    key: Sha256
    input: Directory
    work: WindowWork
    execution: Execution
    attempt: Whole
    fence: Whole

    @property
    def job_dir(self) -> Path:
        return Path(self.work.job_dir)

    @property
    def input_paths(self) -> list[Path]:
        """Paths that the job only reads."""
        return [self.input.path]


class WindowSpec(JobSpec):
    """A job without batch and step: log-probabilities of a policy beyond its native window (`step.window`)."""

    schema_: Literal["longhaul.window/1"] = Field(alias="schema")
    output: WindowOutput

    @model_validator(mode="after")
    def _check_identity(self) -> WindowSpec:
        if self.key != (key := window_key(input_sha256=self.input.manifest_sha256)):
            raise ValueError(f"Expected key {key} from the input's hash, got {self.key}")
        if self.job_id != (job_id := f"window-{key[:16]}"):
            raise ValueError(f"Expected job_id {job_id}, got {self.job_id}")
        return self


class Spec(JobSpec):
    schema_: Literal["longhaul.step/1"] = Field(alias="schema")
    stage: Literal["rft", "dapo"]
    run: RunPlace
    # Narrower than the base's type, which is safe because the model is frozen.
    input: Input  # pyright: ignore[reportIncompatibleVariableOverride]
    batch: Directory
    config: ConfigFile
    # The reference policy of KL or DPO. Its hash is in the config, and so in the key.
    reference: Directory | None = None
    output: Output
    work: Work  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def input_paths(self) -> list[Path]:
        return [self.input.path, *([] if self.reference is None else [self.reference.path])]

    @property
    def parents(self) -> dict[str, str]:
        return {
            "input_manifest_sha256": self.input.manifest_sha256,
            "batch_manifest_sha256": self.batch.manifest_sha256,
            "config_sha256": self.config.sha256,
        }

    @model_validator(mode="after")
    def _check_identity(self) -> Spec:
        key = job_key(
            input_sha256=self.input.manifest_sha256,
            batch_sha256=self.batch.manifest_sha256,
            config_sha256=self.config.sha256,
        )
        if self.key != key:
            raise ValueError(f"Expected key {key} from the three hashes, got {self.key}")
        if self.job_id != (job_id := f"{self.stage}-{key[:16]}"):
            raise ValueError(f"Expected job_id {job_id}, got {self.job_id}")
        if not re.fullmatch(rf"v\d{{6}}-{key[:8]}", self.output.policy_version):
            raise ValueError(f"Expected policy_version v<6 digits>-{key[:8]}, got {self.output.policy_version}")
        return self


def job_key(*, input_sha256: str, batch_sha256: str, config_sha256: str) -> str:
    """Identity of a job. It hashes file bytes only, so TypeScript and Python need no common canonical JSON."""
    text = f"longhaul-step/1\n{input_sha256}\n{batch_sha256}\n{config_sha256}\n"
    return hashlib.sha256(text.encode()).hexdigest()


def window_key(*, input_sha256: str) -> str:
    return hashlib.sha256(f"longhaul-window/1\n{input_sha256}\n".encode()).hexdigest()


def read_spec(path: Path) -> Spec | WindowSpec:
    """Raises JobError 64 that lists all violations."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise JobError(reading_code(error, INVALID_SPEC), f"Cannot read spec {path}: {error.strerror}") from error
    except ValueError as error:
        raise JobError(INVALID_SPEC, f"Expected JSON in {path}: {error}") from error
    is_window = isinstance(value, dict) and value.get("schema") == WINDOW_SCHEMA
    return parse_window_spec(value) if is_window else parse_spec(value)


def parse_spec(value: Any) -> Spec:
    return _parse(Spec, value)


def parse_window_spec(value: Any) -> WindowSpec:
    return _parse(WindowSpec, value)


def _parse(kind: type[Kind], value: Any) -> Kind:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise JobError(INVALID_SPEC, explain(error, kind, where="spec")) from error
