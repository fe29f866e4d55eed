"""One attempt at a job: load, proximal log-probabilities, steps with inner checkpoints, commit, export."""

from __future__ import annotations

import contextlib
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.distributed.tensor import DTensor

from longhaul_trainer import VERSION
from longhaul_trainer.batch.load import Batch
from longhaul_trainer.config import Config
from longhaul_trainer.directory import Sealed, fsync_path, json_bytes, sha256_bytes, sha256_file
from longhaul_trainer.failures import INPUT_UNUSABLE, INTERNAL, STOPPED, JobError, reading_code
from longhaul_trainer.hf_model import UnsupportedModel
from longhaul_trainer.lora import Lora, merge_adapters
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.rope import stated_yarn
from longhaul_trainer.step import canary
from longhaul_trainer.step.clock import now_ms
from longhaul_trainer.step.commit import ATTEMPT_FILE, adopt, commit, set_aside
from longhaul_trainer.step.export import copy_architecture, policy_weights, round_weights, write_policy
from longhaul_trainer.step.failpoints import hit
from longhaul_trainer.step.forward import Scorer
from longhaul_trainer.step.inputs import HF, JobInput, find_damage
from longhaul_trainer.step.lease import Lease
from longhaul_trainer.step.progress import Progress, Silent, last_event_ms
from longhaul_trainer.step.prox import compute_prox, read_prox, write_prox
from longhaul_trainer.step.saver import Saver
from longhaul_trainer.step.spec import Spec
from longhaul_trainer.step.state import (
    HostCopies,
    Snapshot,
    TrainerState,
    build_optimizer,
    checkpoint_weights,
    load_optimizer,
    load_weights,
    read_metrics,
    read_trainer_state,
    restore_random_state,
    shard_name,
    take_snapshot,
)
from longhaul_trainer.step.stop import StopFlag
from longhaul_trainer.step.torch_settings import set_torch
from longhaul_trainer.step.training import Trainer, all_micro_batches
from longhaul_trainer.step.window import prepare_window
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
INNER_KEPT = 2


class Job:
    def __init__(
        self,
        *,
        spec: Spec,
        config: Config,
        job_input: JobInput,
        batch: Batch,
        progress: Progress | Silent,
        lease: Lease,
        stop: StopFlag,
        ranks: Ranks,
    ) -> None:
        self.spec = spec
        self.config = config
        self.job_input = job_input
        self.batch = batch
        self.progress = progress
        self.lease = lease
        self.stop = stop
        self.ranks = ranks
        set_torch(spec.execution)
        self.saver = Saver()
        # The snapshot that the saver is writing, or that the ranks have written but not committed.
        self.pending: tuple[Snapshot, TrainerState] | None = None
        self.copies = HostCopies()
        # Step of the newest inner checkpoint, and when it was taken; before the first one, when the job began.
        self.saved = 0
        self.saved_at = self.began = time.monotonic()
        # Hash of the shard that this rank wrote last.
        self.shard_sha256 = ""
        # Updates that the input's optimizer had made before this job.
        self.carried_updates = 0
        self.facts = {
            "key": spec.key,
            "job_id": spec.job_id,
            "stage": spec.stage,
            "iteration": spec.run.iteration,
            "policy_version": spec.output.policy_version,
            "parents": spec.parents,
            "layout": spec.execution.layout(),
            "versions": _versions(),
            **_model_changes(config),
        }

    def run(self) -> tuple[Sealed, Sealed, TrainerState]:
        """Returns checkpoint, policy and final state, all committed."""
        checkpoint = self._adopt_state(self.spec.output.checkpoint_path)
        if checkpoint is None:
            checkpoint, scorer = self._train()
        else:
            # An earlier attempt ended between the two commits: only the export is missing.
            scorer = self._load(checkpoint.path, is_checkpoint=True)
        policy = self._export(checkpoint, scorer)
        for scratch in ("inner", "shards"):
            self.ranks.first(lambda name=scratch: shutil.rmtree(self.spec.job_dir / name, ignore_errors=True))
        return checkpoint, policy, _read_state(checkpoint.path)

    def _train(self) -> tuple[Sealed, Scorer]:
        # Before the policy is loaded: two models at once would need twice the memory.
        reference = self._reference()
        scorer = self._load_input()
        model = scorer.model
        optimizer = build_optimizer(model, self.config, host=self.spec.execution.offloads_optimizer)
        if self.config.optimizer_init == "carry":
            load_optimizer(self.job_input.sealed.path, model=model, optimizer=optimizer)
            self.carried_updates = read_trainer_state(self.job_input.sealed.path)["optimizer_updates"]
        torch.manual_seed(self.config.seed + self.spec.run.global_step)
        trainer = Trainer(
            scorer=scorer,
            ranks=self.ranks,
            optimizer=optimizer,
            batch=self.batch,
            config=self.config,
            prox=None,
            max_tokens=self.spec.execution.max_tokens_per_micro,
            progress=self.progress,
            check_stop=self._check_stop,
            # Commits the previous inner checkpoint before each update, so a kill loses at most one finished step.
            before_update=self._finish_inner,
            reference=reference,
        )
        newest = self._newest_inner()
        # Before the inner checkpoint is loaded: both calls need the input weights.
        self._set_prox(trainer, has_updates=newest is not None)
        self._canary_old(scorer)
        state = self._resume(newest, model, optimizer)
        resumed_at = state.done if self.saved else None
        self.progress.phase = "train"
        try:
            while state.done < trainer.total_steps:
                self._check_stop()
                self.ranks.first(self.lease.check)
                state = trainer.run_step(state)
                if resumed_at == state.done - 1:
                    self.progress.emit("recovered", opt_step=state.done, **self._recovery())
                if state.done < trainer.total_steps and self._is_inner_due(state.done):
                    self._save_inner(model, optimizer, state)
            self._finish_inner()
            self.progress.phase = "commit"
            self._check_stop()
        except JobError as error:
            if error.code == STOPPED:
                self._save_before_leaving(model, optimizer, state)
            raise
        checkpoint = self._save_final(model, optimizer, state)
        # The export needs the host memory for the full weights.
        self.copies.clear()
        return checkpoint, scorer

    def _adopt(self, directory: Path) -> Sealed | None:
        return self.ranks.first_found(lambda: adopt(directory, key=self.spec.key))

    def _adopt_state(self, directory: Path) -> Sealed | None:
        """Like `_adopt`, for a training state: each rank hashes a part of the files."""
        if self.ranks.world == 1:
            return self._adopt(directory)
        sealed = self.ranks.first_found(lambda: adopt(directory, key=self.spec.key, hashes=False))
        if sealed is None or find_damage(sealed, self.ranks) is None:
            return sealed
        self.ranks.first(lambda: set_aside(directory))
        return None

    def _check_stop(self) -> None:
        """Raises JobError 75 on all ranks or on none: if one rank left alone, the others would wait for it."""
        if self.ranks.any(self.stop.is_asked):
            self.stop.check()
            raise JobError(STOPPED, "Stopped before the final commit: another rank got SIGTERM")

    def _load(self, directory: Path, *, is_checkpoint: bool) -> Scorer:
        weights = checkpoint_weights(directory) if is_checkpoint else hugging_face_weights(directory)
        lora = self.config.lora
        options = ModelOptions(
            ranks=self.ranks,
            rope=self.config.yarn,
            lora=None if lora is None else Lora(rank=lora.rank, alpha=lora.alpha),
            ac=self.spec.execution.ac,
            offload=self.spec.execution.activation_offload,
            seed=self.config.seed,
        )
        return make_scorer(directory / HF if is_checkpoint else directory, weights, options)

    def _load_input(self) -> Scorer:
        self.progress.phase = "load"
        began = time.monotonic()
        try:
            scorer = self._load(self.job_input.sealed.path, is_checkpoint=self.job_input.is_checkpoint)
        except (UnsupportedModel, OSError, ValueError) as error:
            code = reading_code(error, INPUT_UNUSABLE)
            raise JobError(code, f"Cannot load {self.job_input.sealed.path}: {error}") from error
        model = scorer.model
        self.progress.emit(
            "loaded",
            seconds=round(time.monotonic() - began, 3),
            parameters=sum(p.numel() for p in model.parameters()),
            parameter_sum=self._sum_parameters(model),
        )
        hit("loaded")
        return scorer

    def _sum_parameters(self, model: Any) -> float:
        local = (p.to_local() if isinstance(p, DTensor) else p for p in model.parameters())
        return self.ranks.sums([float(sum(p.double().sum().item() for p in local))])[0]

    def _set_prox(self, trainer: Trainer, *, has_updates: bool) -> None:
        """Sets the proximal log-probabilities. `has_updates`: the job resumes after an update, which used the stored values."""
        objective = self.config.objective
        if objective is None:
            return
        if objective.prox == "behaviour":
            trainer.prox = self.batch.behaviour_logprobs
            return
        self.progress.phase = "prox"
        directory = self.spec.job_dir / "prox"
        stored = self._adopt(directory)
        if stored is not None and not has_updates:
            # Another layout, version, number of threads or kind of processor rounds differently, and no update has used these values.
            # Every attempt here would fail at the first step, where the ratio must be 1.
            self.ranks.first(lambda: shutil.rmtree(directory))
            stored = None
        if stored is not None:
            trainer.prox = read_prox(directory)
            return

        def after_micro(done: int) -> None:
            hit("prox")
            self._check_stop()
            self.progress.emit("prox", done=done)

        def keep() -> None:
            self._commit(directory, "prox", lambda staging: write_prox(staging, prox))

        # Before the first update the first step's own forward pass runs at the input weights, so it needs no separate pass.
        micros = trainer.all_micro_batches(first=0 if has_updates else 1)
        prox = compute_prox(trainer.scorer, self.batch, micros, ranks=self.ranks, after_micro=after_micro)
        trainer.prox = prox
        if has_updates:
            keep()
        else:
            trainer.keep_prox = keep

    def _reference(self) -> Any:
        """Log-probabilities of the loss tokens under the reference policy, F32 [T]; None without one. Stored for attempts that resume."""
        path = self.job_input.reference
        if path is None:
            return None
        self.progress.phase = "reference"
        directory = self.spec.job_dir / "reference"
        if self._adopt(directory) is None:
            scorer = self._load_plain(path)

            def after_micro(done: int) -> None:
                hit("reference")
                self._check_stop()
                self.progress.emit("prox", done=done)

            micros = all_micro_batches(
                self.batch,
                max_tokens=self.spec.execution.max_tokens_per_micro,
                ranks=self.ranks,
                balance=scorer.balance,
            )
            found = compute_prox(scorer, self.batch, micros, ranks=self.ranks, after_micro=after_micro)
            del scorer
            self._commit(directory, "reference", lambda staging: write_prox(staging, found))
        return read_prox(directory)

    def _load_plain(self, directory: Path) -> Scorer:
        """Loads a published policy without this job's adapters. Its own are already merged."""
        options = ModelOptions(ranks=self.ranks, rope=self.config.yarn)
        try:
            return make_scorer(directory, hugging_face_weights(directory), options)
        except (UnsupportedModel, OSError, ValueError) as error:
            code = reading_code(error, INPUT_UNUSABLE)
            raise JobError(code, f"Cannot load the reference {directory}: {error}") from error

    def _canary_old(self, scorer: Scorer | None) -> None:
        """Stores the canary's old log-probabilities. None loads the input for it, in case only the export was missing and the job
        directory was cleared."""
        directory = self.spec.job_dir / "canary-old"
        if not self.config.canary_positions or self._adopt(directory) is not None:
            return
        old = self._canary_logprobs(scorer or self._load_input())
        self._commit(directory, "canary-old", lambda staging: canary.write_old(staging, old))

    def _canary_logprobs(self, scorer: Scorer) -> Any:
        rows = canary.canary_rows(self.batch, self.config.canary_positions)
        limit = self.spec.execution.max_tokens_per_micro
        return canary.row_logprobs(scorer, self.batch, rows, max_tokens=limit, ranks=self.ranks)

    def _newest_inner(self) -> Sealed | None:
        """The newest valid inner checkpoint of this job."""
        inner = self.spec.job_dir / "inner"
        steps = self.ranks.first(lambda: _steps_in(inner))
        for step in reversed(steps):
            if (sealed := self._adopt_state(inner / str(step))) is not None:
                return sealed
        return None

    def _resume(self, sealed: Sealed | None, model: Any, optimizer: torch.optim.Optimizer) -> TrainerState:
        """Loads that inner checkpoint and returns its state; None: returns the state of the job's input."""
        if sealed is None:
            return TrainerState(global_step=self.spec.run.global_step, done=0, metrics=[], alarms=[])
        load_weights(sealed.path, model=model, keeps_frozen=True)
        load_optimizer(sealed.path, model=model, optimizer=optimizer)
        restore_random_state(sealed.path, self.ranks)
        state = _read_state(sealed.path)
        self.saved = state.done
        then, now = sealed.manifest["layout"], self.facts["layout"]
        # Only an equal layout guarantees bit-identical results.
        change = {} if then == now else {"relayout": {"from": then, "to": now}}
        seconds = round(time.monotonic() - self.began, 3)
        self.progress.emit("resumed", opt_step=state.done, global_step=state.global_step, seconds=seconds, **change)
        return state

    def _recovery(self) -> dict[str, float]:
        """Seconds until the first new step ended: since this attempt began, and since the previous attempt's last event."""
        last = last_event_ms(self.spec.job_dir / "attempts", before=self.spec.fence)
        since = {} if last is None else {"since_last_attempt_s": round((now_ms() - last) / 1000, 3)}
        return {"since_start_s": round(time.monotonic() - self.began, 3), **since}

    def _is_inner_due(self, done: int) -> bool:
        execution = self.spec.execution
        if done % execution.inner_every:
            return False
        if not execution.inner_every_s:
            return True
        # The first rank's clock decides for all: a rank that saved alone would wait for the others.
        return self.ranks.first(lambda: time.monotonic() - self.saved_at >= execution.inner_every_s)

    def _save_inner(self, model: Any, optimizer: torch.optim.Optimizer, state: TrainerState) -> None:
        """Copies the state to the host and writes it in a thread. One process also commits in that thread. Several ranks commit
        together in `_finish_inner`, before the next update, because a commit needs collectives."""
        # Inner checkpoints leave out frozen weights, which the job's input has.
        snapshot = self._snapshot(model, optimizer, state, frozen=False)
        self.pending = (snapshot, state)
        self.saved = state.done
        if self.spec.execution.inner_every_s:
            self.saved_at = time.monotonic()
        self.saver.start(self._commit_inner if self.ranks.world == 1 else lambda: self._write_shard(snapshot))

    def _finish_inner(self) -> None:
        """Waits for the saver and commits its checkpoint. All ranks must call it at the same point."""
        self.saver.join()
        if self.pending is not None and self.ranks.world > 1:
            self._commit_inner()
        self.pending = None

    def _commit_inner(self) -> None:
        if self.pending is None:
            return
        snapshot, state = self.pending
        inner = self.spec.job_dir / "inner"
        self._commit_state(inner / str(state.done), "inner", snapshot, state, event="checkpoint")
        self.ranks.first(lambda: self._remove_old(inner))

    def _remove_old(self, inner: Path) -> None:
        for step in _steps_in(inner)[:-INNER_KEPT]:
            shutil.rmtree(inner / str(step), ignore_errors=True)

    def _save_before_leaving(self, model: Any, optimizer: Any, state: TrainerState) -> None:
        """Saves on SIGTERM: between two micro-batches the weights are those of the last update. The launcher's grace period bounds it."""
        with contextlib.suppress(Exception):
            self._finish_inner()
            if self.saved < state.done:
                self._save_inner(model, optimizer, state)
                self._finish_inner()

    def _save_final(self, model: Any, optimizer: Any, state: TrainerState) -> Sealed:
        """Commits the checkpoint. Its manifest has the number of optimizer updates and a hash of weights and moments.

        Raises JobError 70 if that number is wrong: an update was lost or applied twice.
        """
        snapshot = self._snapshot(model, optimizer, state)
        expected = self.carried_updates + state.done
        if snapshot.updates != expected:
            raise JobError(INTERNAL, f"Expected {expected} optimizer updates at the end, found {snapshot.updates}")
        if self.ranks.world > 1:
            self._write_shard(snapshot)
        # A hash over the ranks' hashes, in rank order. With one rank it is the shard's own, so the shard alone proves it.
        parts = self.ranks.gather(snapshot.sha256())
        state_sha256 = parts[0] if len(parts) == 1 else sha256_bytes("\n".join(parts).encode())
        facts = {"optimizer_updates": snapshot.updates, "state_sha256": state_sha256}
        return self._commit_state(
            self.spec.output.checkpoint_path, "checkpoint", snapshot, state, event="committed", facts=facts
        )

    def _snapshot(self, model: Any, optimizer: Any, state: TrainerState, *, frozen: bool = True) -> Snapshot:
        return take_snapshot(
            model=model, optimizer=optimizer, state=state, facts=self.facts, copies=self.copies, frozen=frozen
        )

    def _commit_state(
        self,
        path: Path,
        kind: str,
        snapshot: Snapshot,
        state: TrainerState,
        *,
        event: str,
        facts: dict[str, Any] | None = None,
    ) -> Sealed:
        shards = self._written_shards()

        def write(staging: Path) -> None:
            for shard in shards:
                shard.rename(staging / shard.name)
            if not shards:
                snapshot.write_shard(staging / shard_name(self.ranks))
            snapshot.write_facts(staging)
            copy_architecture(self.job_input.architecture, staging / HF)

        known = {shard.name: sha256 for shard, sha256 in shards.items()}
        return self._commit(path, kind, write, known=known, global_step=state.global_step, event=event, **(facts or {}))

    def _shard_path(self) -> Path:
        """Ranks write shards concurrently, outside the staging directory that the first rank creates later."""
        return self.spec.job_dir / "shards" / str(self.spec.fence) / shard_name(self.ranks)

    def _write_shard(self, snapshot: Snapshot) -> None:
        path = self._shard_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        snapshot.write_shard(path)
        fsync_path(path)
        # Each rank hashes its own shard concurrently. Otherwise the first rank would hash all of them.
        self.shard_sha256 = sha256_file(path)

    def _written_shards(self) -> dict[Path, str]:
        """Shards of all ranks → their hashes. Empty in a job of one rank, which writes its shard into the staging directory."""
        if self.ranks.world == 1:
            return {}
        written = self.ranks.gather([str(self._shard_path()), self.shard_sha256])
        return {Path(path): sha256 for path, sha256 in written}

    def _export(self, checkpoint: Sealed, scorer: Scorer) -> Sealed:
        found = self._adopt(self.spec.output.policy_path)
        if found is not None:
            return found
        self.progress.phase = "export"
        self._canary_old(None)
        dtype = DTYPES[self.config.export_dtype]
        merge_adapters(scorer.model)
        round_weights(scorer.model, dtype)
        new = self._canary_logprobs(scorer) if self.config.canary_positions else None
        window = self._window(scorer)
        weights = policy_weights(scorer.model, dtype, self.ranks)

        def write(staging: Path) -> None:
            window(staging)
            if new is not None:
                canary.write_canary(
                    staging,
                    batch=self.batch,
                    rows=canary.canary_rows(self.batch, self.config.canary_positions),
                    old=canary.read_old(self.spec.job_dir / "canary-old"),
                    new=new,
                    positions=self.config.canary_positions,
                )
            write_policy(
                staging, model=scorer.model, weights=weights, dtype=dtype, architecture=self.job_input.architecture
            )

        step = checkpoint.manifest["global_step"]
        facts: dict[str, Any] = {"dtype": self.config.export_dtype, "checkpoint_sha256": checkpoint.sha256}
        return self._commit(self.spec.output.policy_path, "policy", write, global_step=step, event="exported", **facts)

    def _window(self, scorer: Scorer) -> Callable[[Path], None]:
        """Returns the function that writes window.safetensors of the rounded weights, if the policy states a rope."""
        limit = self.spec.execution.max_tokens_per_micro
        yarn = stated_yarn(scorer.model.config.to_dict())
        return prepare_window(scorer, yarn, self.job_input.architecture, max_tokens=limit, ranks=self.ranks)

    def _commit(
        self,
        path: Path,
        kind: str,
        write: Any,
        *,
        event: str | None = None,
        known: dict[str, str] | None = None,
        **facts: Any,
    ) -> Sealed:
        began = time.monotonic()

        def write_with_attempt(staging: Path) -> None:
            write(staging)
            (staging / ATTEMPT_FILE).write_bytes(json_bytes(self._attempt_facts()))

        sealed = self.ranks.first_sealed(
            lambda: commit(
                path,
                kind=kind,
                fence=self.spec.fence,
                facts={**self.facts, **facts},
                write=write_with_attempt,
                check_fence=self.lease.check,
                known=known,
            )
        )
        if event is not None:
            self.progress.emit(
                event,
                kind=kind,
                path=str(path),
                bytes=sum(entry["bytes"] for entry in sealed.manifest["files"]),
                seconds=round(time.monotonic() - began, 3),
                manifest_sha256=sealed.sha256,
            )
        return sealed

    def _attempt_facts(self) -> dict[str, Any]:
        spec = self.spec
        paths = {
            "input": spec.input.path,
            "batch": spec.batch.path,
            "config": spec.config.path,
            "job_dir": spec.job_dir,
        }
        return {
            "attempt": spec.attempt,
            "fence": spec.fence,
            "run": spec.run.id,
            "host": platform.node(),
            "paths": {name: str(path) for name, path in paths.items()},
        }


def _steps_in(inner: Path) -> list[int]:
    """Steps of the inner checkpoints, ascending."""
    return sorted(int(path.name) for path in inner.glob("[0-9]*") if path.name.isdigit())


def _read_state(directory: Path) -> TrainerState:
    value = read_trainer_state(directory)
    return TrainerState(
        global_step=value["global_step"], done=value["done"], metrics=read_metrics(directory), alarms=value["alarms"]
    )


def _model_changes(config: Config) -> dict[str, Any]:
    """Settings that turn the input's architecture into the trained model: rope and adapters, if any."""
    rope, lora = config.yarn, config.lora
    return {**({} if rope is None else {"rope": asdict(rope)}), **({} if lora is None else {"lora": lora.model_dump()})}


def _versions() -> dict[str, str]:
    return {
        "longhaul_trainer": VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
