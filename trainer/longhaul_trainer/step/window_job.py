"""A job without a step: writes window.safetensors for a base policy, which no training job exported."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from longhaul_trainer.directory import TornDirectory, json_bytes, open_sealed
from longhaul_trainer.failures import INPUT_UNUSABLE, INVALID_SPEC, JobError, reading_code
from longhaul_trainer.hf_model import UnsupportedModel
from longhaul_trainer.parallel.ranks import Ranks, open_ranks
from longhaul_trainer.rope import read_yarn
from longhaul_trainer.step.commit import ATTEMPT_FILE, commit
from longhaul_trainer.step.lease import Lease
from longhaul_trainer.step.progress import Progress, Silent
from longhaul_trainer.step.spec import WindowSpec
from longhaul_trainer.step.stop import StopFlag
from longhaul_trainer.step.torch_settings import set_torch
from longhaul_trainer.step.window import prepare_window, reaches_beyond
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights


def run_window(
    spec: WindowSpec,
    *,
    progress: Progress | Silent,
    lease: Lease,
    stop: StopFlag,
    ranks: Ranks | None,
    dry_run: bool,
) -> dict[str, Any]:
    """Raises JobError 64 for a policy without a rope, 66 for a torn one, 75 after SIGTERM."""
    try:
        sealed = open_sealed(spec.input.path, expected_sha256=spec.input.manifest_sha256, hashes=ranks is None)
    except TornDirectory as error:
        raise JobError(INPUT_UNUSABLE, str(error)) from error
    yarn = read_yarn(sealed.path)
    if yarn is None or not reaches_beyond(yarn):
        raise JobError(INVALID_SPEC, f"Expected a policy that states a rope, {sealed.path} states {yarn or 'none'}")
    if dry_run:
        return {"outcome": "dry-run"}
    if ranks is None:
        stop.check()
        ranks = open_ranks(device=spec.execution.device, world=1, cp=1)
    execution = spec.execution
    set_torch(execution)
    progress.phase = "load"
    began = time.monotonic()
    try:
        options = ModelOptions(ranks=ranks, ac=execution.ac, offload=execution.activation_offload)
        scorer = make_scorer(sealed.path, hugging_face_weights(sealed.path), options)
    except (UnsupportedModel, OSError, ValueError) as error:
        raise JobError(reading_code(error, INPUT_UNUSABLE), f"Cannot load {sealed.path}: {error}") from error
    progress.emit("loaded", seconds=round(time.monotonic() - began, 3))
    progress.phase = "window"
    write = prepare_window(scorer, yarn, sealed.path, max_tokens=execution.max_tokens_per_micro, ranks=ranks)

    def write_with_attempt(staging: Path) -> None:
        write(staging)
        (staging / ATTEMPT_FILE).write_bytes(json_bytes({"attempt": spec.attempt, "fence": spec.fence}))

    ranks.first_sealed(
        lambda: commit(
            spec.output.window_path,
            kind="window",
            fence=spec.fence,
            facts={"key": spec.key, "job_id": spec.job_id, "policy_sha256": sealed.sha256},
            write=write_with_attempt,
            check_fence=lease.check,
        )
    )
    return {"window": {"uri": spec.output.window_uri}, "outcome": "committed"}
