"""`step`: from a spec file to an exit code. The single exit path of a job."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longhaul_trainer.config import Config, parse_config
from longhaul_trainer.directory import json_bytes, sha256_bytes, write_durably
from longhaul_trainer.failures import (
    CLASSES,
    FENCED,
    INTERNAL,
    INVALID_SPEC,
    IO_ERROR,
    OK,
    OUT_OF_MEMORY,
    OUTPUT_UNWRITABLE,
    STOPPED,
    UNAVAILABLE,
    JobError,
    LostRanks,
    io_code,
    reading_code,
)
from longhaul_trainer.imports import heavy_imports
from longhaul_trainer.parallel.rank_heartbeat import Beat, find_silent, format_silent_ranks
from longhaul_trainer.step.clock import now_ms
from longhaul_trainer.step.failpoints import hit
from longhaul_trainer.step.lease import Lease
from longhaul_trainer.step.place import die_with_launcher, is_one_of_many, launch_id
from longhaul_trainer.step.progress import Progress, Silent, place_of
from longhaul_trainer.step.spec import JobSpec, Spec, WindowSpec, read_spec
from longhaul_trainer.step.stop import StopFlag

if TYPE_CHECKING:
    from longhaul_trainer.parallel.ranks import Ranks

EXIT = "exit.json"
# Codes with which the first rank may end because another rank failed. That rank's own report says more.
BY_OTHERS = (INTERNAL, IO_ERROR, STOPPED, UNAVAILABLE)
DEFAULT_RANK_TIMEOUT_S = 600.0
# Share of `stall_s` after which collectives time out. Ranks must report the missing rank before the launcher considers the job stalled.
RANK_PATIENCE = 0.8
# Directory below the attempt's with one heartbeat file per rank.
RANKS = "ranks"
AnyProgress = Progress | Silent
EXIT_SCHEMA = "longhaul.exit/1"


def step(spec_path: Path, *, dry_run: bool) -> int:
    """Runs the job and returns its exit code. Writes exit.json first, which outranks the process status."""
    stop = StopFlag()
    die_with_launcher()
    if not is_one_of_many():
        # Before the slow imports: a SIGTERM during them is honoured at the first boundary. With several ranks, no handler runs while a
        # rank waits in the rendezvous, so SIGTERM must kill it until all ranks have joined.
        stop.install()
    try:
        spec = read_spec(spec_path)
    except JobError as error:
        print(f"{CLASSES[error.code]}: {error.message}", file=sys.stderr)
        return error.code
    attempt_dir = spec.job_dir / "attempts" / str(spec.fence)
    # A dry run only reads files and needs no other ranks.
    rank = 0 if dry_run else int(os.environ.get("RANK", "0"))
    launch = launch_id()
    try:
        progress = Progress(attempt_dir, spec.fence) if rank == 0 else Silent()
    except OSError as error:
        print(f"Cannot write to {attempt_dir}: {error}", file=sys.stderr)
        return OUTPUT_UNWRITABLE
    heartbeat = None if dry_run or not is_one_of_many() else Beat(attempt_dir / RANKS, rank, lambda: place_of(progress))
    code, message, facts = _attempt(spec, progress, stop, dry_run, launch)
    if heartbeat is not None:
        heartbeat.close()
    progress.close()
    by_others = _report_of(attempt_dir, launch)
    if rank != 0 and (code == OK or by_others is not None):
        return code
    if rank == 0 and code in BY_OTHERS and by_others is not None:
        # Another rank failed first and reported why. This rank only lost a peer.
        return by_others
    facts = {**facts, "launch": launch, **({"rank": rank} if rank else {})}
    return _finish(attempt_dir, spec, progress, code, message, facts)


def _report_of(attempt_dir: Path, launch: str) -> int | None:
    """The code that a rank of this launch has reported.

    A site may start an attempt again, whose first launch has left a report. Times do not tell them apart: a file server has a clock of
    its own.
    """
    try:
        report = json.loads((attempt_dir / EXIT).read_text())
    except (OSError, ValueError):
        return None
    return int(report["code"]) if isinstance(report, dict) and report.get("launch") == launch else None


def _attempt(
    spec: Spec | WindowSpec, progress: AnyProgress, stop: StopFlag, dry_run: bool, launch: str
) -> tuple[int, str, dict[str, Any]]:
    try:
        return OK, "", _run(spec, progress, stop, dry_run, launch)
    except LostRanks as error:
        return error.code, f"{_missing(spec)} {error.message}", {}
    except JobError as error:
        return error.code, error.message, {}
    except Exception as error:
        code, message = _code_of(error, spec), f"{type(error).__name__}: {error}"
        return code, f"{_missing(spec)} {message}" if code == UNAVAILABLE else message, {}


def _missing(spec: JobSpec) -> str:
    """Names the silent ranks. Takes seconds, but the next attempt has to wait for their end anyway."""
    world = spec.execution.ranks
    return f"{format_silent_ranks(find_silent(spec.job_dir / 'attempts' / str(spec.fence) / RANKS, world=world), world=world)}."


def _code_of(error: Exception, spec: JobSpec) -> int:
    if _is_superseded(spec):
        # The newer attempt removes this attempt's files, which can cause any error.
        return FENCED
    if (code := io_code(error, spec.input_paths)) is not None:
        return code
    traceback.print_exc()
    if _is_lost_rank(error):
        return UNAVAILABLE
    return OUT_OF_MEMORY if _is_out_of_memory(error) else INTERNAL


def _is_superseded(spec: JobSpec) -> bool:
    try:
        Lease(spec.job_dir, spec.fence).check()
    except JobError:
        return True
    return False


def _is_lost_rank(error: Exception) -> bool:
    """Whether a peer is gone: gloo raises a plain RuntimeError, NCCL and the store raise Dist… classes."""
    return type(error).__name__.startswith("Dist") or "/gloo/" in str(error)


def _is_out_of_memory(error: Exception) -> bool:
    """Torch has an exception class for GPU memory, matched by name because importing torch takes seconds, and none for host memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def _run(spec: Spec | WindowSpec, progress: AnyProgress, stop: StopFlag, dry_run: bool, launch: str) -> dict[str, Any]:
    progress.emit("started", job_id=spec.job_id, key=spec.key, attempt=spec.attempt, layout=spec.execution.layout())
    if spec.execution.ranks == 1 or dry_run:
        # A single process returns a committed job's outputs without importing torch, which takes seconds.
        if (found := _find_committed(spec)) is not None:
            return found
        lease = Lease(spec.job_dir, spec.fence)
        if not dry_run:
            _begin(spec, lease, launch)
        ranks = None
    else:
        with heavy_imports():
            from longhaul_trainer.parallel.ranks import open_ranks

        ranks = open_ranks(
            device=spec.execution.device,
            world=spec.execution.ranks,
            cp=spec.execution.cp,
            timeout_s=RANK_PATIENCE * spec.execution.stall_s or DEFAULT_RANK_TIMEOUT_S,
        )
        stop.install()
        if (found := ranks.first(lambda: _find_committed(spec))) is not None:
            return found
        lease = Lease(spec.job_dir, spec.fence)
        ranks.first(lambda: _begin(spec, lease, launch))
    hit("started")
    if isinstance(spec, WindowSpec):
        from longhaul_trainer.step.window_job import run_window

        return run_window(spec, progress=progress, lease=lease, stop=stop, ranks=ranks, dry_run=dry_run)
    return _train(spec, progress, lease, stop, ranks, dry_run)


def _begin(spec: JobSpec, lease: Lease, launch: str) -> None:
    """Takes the lease. The report of an earlier launch of this attempt would be read as the end of this one if this one is killed."""
    lease.acquire()
    attempt_dir = spec.job_dir / "attempts" / str(spec.fence)
    if _report_of(attempt_dir, launch) is None:
        (attempt_dir / EXIT).unlink(missing_ok=True)


def _train(
    spec: Spec, progress: AnyProgress, lease: Lease, stop: StopFlag, ranks: Ranks | None, dry_run: bool
) -> dict[str, Any]:
    # Imported late: a job that is already committed needs neither numpy nor torch.
    from longhaul_trainer.batch.load import load_batch
    from longhaul_trainer.step.inputs import open_input

    config = _read_config(spec)
    job_input = open_input(spec, config, ranks)
    batch = load_batch(
        spec.batch.path,
        manifest_sha256=spec.batch.manifest_sha256,
        stage=spec.stage,
        iteration=spec.run.iteration,
        batch_size=config.batch_size,
        tokenizer_sha256=job_input.tokenizer_sha256,
        vocab_size=_vocab_size(job_input.architecture),
        policy=job_input.policy,
        max_policy_lag=config.max_policy_lag,
        token_budget=config.token_budget,
        pairs=config.dpo is not None,
    )
    if dry_run:
        return _plan(spec, config, batch, job_input.architecture)
    if ranks is None:
        # Several ranks agree to stop at the first micro-batch.
        stop.check()
    with heavy_imports():
        from longhaul_trainer.parallel.ranks import open_ranks
        from longhaul_trainer.step.job import Job

    if ranks is None:
        ranks = open_ranks(device=spec.execution.device, world=1, cp=1)
    job = Job(
        spec=spec,
        config=config,
        job_input=job_input,
        batch=batch,
        progress=progress,
        lease=lease,
        stop=stop,
        ranks=ranks,
    )
    checkpoint, policy, state = job.run()
    return {
        **_outputs(spec, checkpoint, policy),
        "outcome": "committed",
        "opt_steps": state.done,
        "alarms": state.alarms,
    }


def _find_committed(spec: Spec | WindowSpec) -> dict[str, Any] | None:
    """All outputs of this job, if an earlier attempt committed them; otherwise None."""
    from longhaul_trainer.step.commit import adopt

    if isinstance(spec, WindowSpec):
        window = adopt(spec.output.window_path, key=spec.key)
        return None if window is None else {"window": {"uri": spec.output.window_uri}, "outcome": "found"}
    checkpoint = adopt(spec.output.checkpoint_path, key=spec.key)
    policy = adopt(spec.output.policy_path, key=spec.key) if checkpoint is not None else None
    if checkpoint is None or policy is None:
        return None
    state = json.loads((checkpoint.path / "trainer_state.json").read_text())
    facts = {"outcome": "found", "opt_steps": state["done"], "alarms": state["alarms"]}
    return {**_outputs(spec, checkpoint, policy), **facts}


def _outputs(spec: Spec, checkpoint: Any, policy: Any) -> dict[str, Any]:
    return {
        "checkpoint": {"uri": spec.output.checkpoint_uri, "manifest_sha256": checkpoint.sha256},
        "policy": {
            "uri": spec.output.policy_uri,
            "manifest_sha256": policy.sha256,
            "version": spec.output.policy_version,
        },
        "global_step": checkpoint.manifest["global_step"],
    }


def _read_config(spec: Spec) -> Config:
    try:
        data = spec.config.path.read_bytes()
    except OSError as error:
        code = reading_code(error, INVALID_SPEC)
        raise JobError(code, f"Cannot read config {spec.config.path}: {error.strerror}") from error
    if (found := sha256_bytes(data)) != spec.config.sha256:
        raise JobError(INVALID_SPEC, f"Expected config to hash to {spec.config.sha256}, found {found}")
    config = parse_config(data)
    if config.stage != spec.stage:
        raise JobError(INVALID_SPEC, f"Expected config.stage {spec.stage} as in the spec, got {config.stage}")
    return config


def _vocab_size(architecture: Path) -> int:
    return int(json.loads((architecture / "config.json").read_text())["vocab_size"])


def _plan(spec: Spec, config: Config, batch: Any, architecture: Path) -> dict[str, Any]:
    """What the job would do: the packing of each mini-batch and the predicted memory of one rank. Loads no weights."""
    from longhaul_trainer.batch.micro import cut_micro_batches
    from longhaul_trainer.parallel.heads import check_heads
    from longhaul_trainer.plan.command import describe
    from longhaul_trainer.plan.memory import Layout, predict
    from longhaul_trainer.plan.shapes import read_shape

    execution = spec.execution
    parts, largest = [], 0
    for part in batch.minibatches:
        lengths = [batch.row_length(row) for row in range(part.first_row, part.first_row + part.rows)]
        micros = cut_micro_batches(lengths, max_tokens=execution.max_tokens_per_micro)
        largest = max(largest, *(sum(lengths[at] for at in micro) for micro in micros))
        fill = sum(lengths) / (len(micros) * max(execution.max_tokens_per_micro, max(lengths)))
        parts.append(
            {"rows": part.rows, "loss_tokens": part.loss_tokens, "micros": len(micros), "fill": round(fill, 3)}
        )
    shape = read_shape(architecture / "config.json")
    check_heads(heads=shape.heads, kv_heads=shape.kv_heads, cp=execution.cp)
    layout = Layout(
        tokens=largest,
        ranks=execution.ranks,
        cp=execution.cp,
        ac=execution.ac,
        offload=execution.offload,
        states=config.optimizer.states,
        lora_rank=None if config.lora is None else config.lora.rank,
        compute_bytes=2 if execution.device == "cuda" else 4,
    )
    plan = {
        "opt_steps": len(parts) * config.epochs,
        "tokens": batch.tokens,
        "minibatches": parts,
        "memory": describe(predict(shape, layout)),
    }
    print(json.dumps(plan))
    return {"outcome": "dry-run", **plan}


def _say_end(progress: AnyProgress, code: int, message: str, facts: dict[str, Any]) -> None:
    if code == STOPPED:
        progress.emit("sigterm", message=message)
    if code == OK:
        progress.emit("done", outcome=facts["outcome"])
    else:
        progress.emit("failed", code=code, **{"class": CLASSES[code]}, message=message[:1500])


def _finish(
    attempt_dir: Path, spec: JobSpec, progress: AnyProgress, code: int, message: str, facts: dict[str, Any]
) -> int:
    if code != OK:
        print(f"{CLASSES[code]}: {message}", file=sys.stderr)
    # On a full disk the process status must still report the code.
    with contextlib.suppress(OSError):
        _say_end(progress, code, message, facts)
    report = {
        "schema": EXIT_SCHEMA,
        "code": code,
        "class": CLASSES[code],
        "message": message,
        "job_id": spec.job_id,
        "key": spec.key,
        "attempt": spec.attempt,
        "fence": spec.fence,
        "t": now_ms(),
        "log_tail": [] if code == OK else list(progress.tail),
        **facts,
    }
    try:
        write_durably(attempt_dir / EXIT, json_bytes(report))
    except OSError as error:
        print(f"Cannot write exit.json: {error}", file=sys.stderr)
        return OUTPUT_UNWRITABLE if code == OK else code
    return code
