"""The inputs of a job, verified before any weight is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from longhaul_trainer.batch.accounts import InputPolicy
from longhaul_trainer.config import Config
from longhaul_trainer.directory import Sealed, TornDirectory, open_sealed, sha256_file, verify_files
from longhaul_trainer.failures import INPUT_UNUSABLE, INVALID_SPEC, JobError, io_code
from longhaul_trainer.rope import Yarn, read_yarn
from longhaul_trainer.step.spec import Spec

if TYPE_CHECKING:
    from longhaul_trainer.parallel.ranks import Ranks

HF = "hf"


@dataclass(frozen=True)
class JobInput:
    """`architecture`: directory with config.json and tokenizer files; `tokenizer_sha256`: of the input's tokenizer.json."""

    sealed: Sealed
    architecture: Path
    tokenizer_sha256: str
    policy: InputPolicy
    is_checkpoint: bool
    # Directory of the reference policy of KL or DPO.
    reference: Path | None = None


def open_input(spec: Spec, config: Config, ranks: Ranks | None = None) -> JobInput:
    """Raises JobError 66 for an input that is missing, torn or another one, 64 for one that does not fit the spec. A collective with `ranks`."""
    sealed = _open_whole(spec.input.path, spec.input.manifest_sha256, ranks)
    kind = sealed.manifest.get("kind")
    is_checkpoint = spec.input.kind == "checkpoint"
    if is_checkpoint != (kind == "checkpoint"):
        raise JobError(INVALID_SPEC, f"Expected input.kind to fit the directory, got {spec.input.kind} for a {kind}")
    if config.optimizer_init == "carry" and not is_checkpoint:
        raise JobError(INVALID_SPEC, "Expected optimizer_init fresh: a model directory has no optimizer state to carry")
    step = sealed.manifest.get("global_step", 0)
    if step != spec.run.global_step:
        raise JobError(INVALID_SPEC, f"Expected run.global_step {step} as in the input, got {spec.run.global_step}")
    schedule = config.schedule
    if schedule.kind != "constant" and step >= schedule.total_steps:
        raise JobError(
            INVALID_SPEC,
            f"Expected `total_steps` in config.schedule to be above run.global_step = {step}, got {schedule.total_steps}: "
            f"the whole job would train at end_lr = {schedule.end_lr:g}",
        )
    _check_lora(config, sealed)
    architecture = spec.input.path / HF if is_checkpoint else spec.input.path
    for name in ("tokenizer.json", "config.json"):
        if not (architecture / name).is_file():
            raise JobError(INPUT_UNUSABLE, f"Expected {name} in {architecture}")
    _check_rope(config, sealed, architecture)
    version = sealed.manifest.get("policy_version")
    tokenizer_sha256 = sha256_file(architecture / "tokenizer.json")
    return JobInput(
        sealed=sealed,
        architecture=architecture,
        tokenizer_sha256=tokenizer_sha256,
        policy=InputPolicy(version=version, manifest_sha256=sealed.sha256),
        is_checkpoint=is_checkpoint,
        reference=_open_reference(spec, config, tokenizer_sha256, ranks),
    )


def _open_reference(spec: Spec, config: Config, tokenizer_sha256: str, ranks: Ranks | None) -> Path | None:
    wanted = None if config.pull is None else config.pull.reference_sha256
    found = None if spec.reference is None else spec.reference.manifest_sha256
    if wanted != found:
        raise JobError(
            INVALID_SPEC, f"Expected spec.reference to be the policy that config names ({wanted}), got {found}"
        )
    if spec.reference is None:
        return None
    sealed = _open_whole(spec.reference.path, spec.reference.manifest_sha256, ranks)
    if sealed.manifest.get("kind") == "checkpoint":
        raise JobError(INVALID_SPEC, "Expected spec.reference to be a policy directory, got a checkpoint")
    if not (sealed.path / "tokenizer.json").is_file() or (
        sha256_file(sealed.path / "tokenizer.json") != tokenizer_sha256
    ):
        raise JobError(INVALID_SPEC, f"Expected the reference to have the input's tokenizer [{sealed.path}]")
    return sealed.path


def _open_whole(path: Path, manifest_sha256: str, ranks: Ranks | None) -> Sealed:
    try:
        sealed = open_sealed(path, expected_sha256=manifest_sha256, hashes=ranks is None)
    except TornDirectory as error:
        raise JobError(INPUT_UNUSABLE, str(error)) from error
    if ranks is not None and (problem := find_damage(sealed, ranks, is_input=True)) is not None:
        raise JobError(INPUT_UNUSABLE, problem)
    return sealed


def _check_lora(config: Config, sealed: Sealed) -> None:
    """Raises JobError 64 if the config scales the input's adapters differently, or carries moments of other weights.

    Checkpoints of earlier versions do not state the scale.
    """
    stated = sealed.manifest.get("lora")
    wanted = None if config.lora is None else config.lora.model_dump()
    if stated != wanted and (stated is not None or config.optimizer_init == "carry"):
        raise JobError(INVALID_SPEC, f"Expected config.lora to be that of the input ({stated}), got {wanted}")


def _check_rope(config: Config, sealed: Sealed, architecture: Path) -> None:
    """Raises JobError 64 unless the input's config.json, which servers read too, states the rope that the job's config expects.

    Checkpoints of earlier versions state it in their manifest.
    """
    stated = read_yarn(architecture)
    if stated is None and "rope" in sealed.manifest:
        stated = Yarn(**sealed.manifest["rope"])
    if config.yarn is not None and stated != config.yarn:
        raise JobError(
            INVALID_SPEC,
            f"Expected the input to state the rope of the config ({config.yarn}), its config.json states "
            f"{stated or 'none'}: a server of it would sample from another model. Start a run that imports the base anew",
        )


def find_damage(sealed: Sealed, ranks: Ranks, *, is_input: bool = False) -> str | None:
    """The first difference from the manifest, or None, the same on every rank. Each rank hashes a part of the files, because a
    checkpoint of many ranks is too large to be read by one of them. A collective.

    Raises JobError on every rank if one cannot read its part: the files may be intact.
    """
    problem: tuple[int | None, str] | None = None
    try:
        verify_files(sealed.path, sealed.manifest, hashes=True, part=(ranks.rank, ranks.world))
    except TornDirectory as error:
        problem = None, str(error)
    except OSError as error:
        problem = io_code(error, [sealed.path] if is_input else []), f"Cannot read {sealed.path}: {error}"
    problems = [found for found in ranks.gather(problem) if found is not None]
    for code, message in problems:
        if code is not None:
            raise JobError(code, message)
    return problems[0][1] if problems else None
