"""The training loop: `epochs` passes over K mini-batches, one optimizer step per mini-batch, resumable after each step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from longhaul_trainer.batch.accounts import Minibatch, in_row_order
from longhaul_trainer.batch.load import Batch
from longhaul_trainer.batch.micro import cut_micro_batches, share_out
from longhaul_trainer.config import Config
from longhaul_trainer.failures import DIVERGED, INTERNAL, JobError
from longhaul_trainer.objective.algorithms import BY_LENGTH, BY_ROW, Counts, Tokens, policy_loss
from longhaul_trainer.objective.corrections import Correction, correct
from longhaul_trainer.objective.losses import LossStats, cross_entropy, dpo
from longhaul_trainer.objective.metrics import find_alarms, mismatch_metrics
from longhaul_trainer.objective.schedule import learning_rate
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.step.failpoints import hit
from longhaul_trainer.step.forward import MicroBatch, Scorer, gather_rows
from longhaul_trainer.step.progress import Progress, Silent, plain
from longhaul_trainer.step.prox import share_forward, take_forward
from longhaul_trainer.step.state import TrainerState

# Largest |logp - prox| at the first step, where the ratio is 1 by construction. More than rounding means a stale prox file or an
# unstable forward pass.
FIRST_RATIO_TOLERANCE = {"cpu": 1e-6, "cuda": 1e-3}
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Pairs:
    """DPO terms of one mini-batch, by trajectory of the batch's table; `losses.dpo` takes them by token. margins: by pair."""

    signs: Array
    margins_of: Array
    shares: Array
    margins: Array
    # Mean β·log π/π_ref of chosen and of rejected trajectories.
    rewards: tuple[float, float]


@dataclass
class Step:
    """Sums over the micro-batches of one mini-batch: of this rank, and after `add_up` of all ranks."""

    labels: int = 0
    loss: float = 0.0
    entropy: float = 0.0
    clip_low: int = 0
    clip_high: int = 0
    dual_clip: int = 0
    ratio_sum: float = 0.0
    ratio_max: float = 0.0
    first_gap: float = 0.0
    divergence: float = 0.0
    # Negative log-likelihood of experts' tokens.
    imitated: float = 0.0

    def add(self, stats: LossStats) -> None:
        self.clip_low += stats.clip_low
        self.clip_high += stats.clip_high
        self.dual_clip += stats.dual_clip
        self.ratio_sum += float(stats.ratios.double().sum())
        self.ratio_max = max(self.ratio_max, float(stats.ratios.max()) if len(stats.ratios) else 0.0)

    def add_up(self, ranks: Ranks) -> Step:
        counts = [self.labels, self.clip_low, self.clip_high, self.dual_clip]
        labels, clip_low, clip_high, dual_clip, loss, entropy, ratio_sum, divergence, imitated = ranks.sums(
            [*counts, self.loss, self.entropy, self.ratio_sum, self.divergence, self.imitated]
        )
        ratio_max, first_gap = ranks.maxima([self.ratio_max, self.first_gap])
        return Step(
            labels=int(labels),
            loss=loss,
            entropy=entropy,
            clip_low=int(clip_low),
            clip_high=int(clip_high),
            dual_clip=int(dual_clip),
            ratio_sum=ratio_sum,
            ratio_max=ratio_max,
            first_gap=first_gap,
            divergence=divergence,
            imitated=imitated,
        )


def scatter_rows(
    rows: Sequence[int], *, batch: Batch, label_mask: Array, max_tokens: int, ranks: Ranks, balance: float
) -> Iterator[MicroBatch]:
    """Packs rows into micro-batches and yields those of this rank. label_mask: [T]; balance: `Shape.balance` of the model."""
    lengths = [batch.row_length(row) for row in rows]
    micros = cut_micro_batches(lengths, max_tokens=max_tokens)
    for cut in share_out(micros, lengths, ranks=ranks.dp, balance=balance)[ranks.dp_rank]:
        yield gather_rows(
            [rows[at] for at in cut],
            offsets=batch.offsets,
            input_ids=batch.input_ids,
            label_mask=label_mask,
            device=ranks.device,
            cp=ranks.cp,
            cp_rank=ranks.cp_rank,
        )


def micro_batches_of(
    part: Minibatch, batch: Batch, *, max_tokens: int, ranks: Ranks, balance: float
) -> Iterator[MicroBatch]:
    """This rank's micro-batches of one mini-batch, with its loss tokens as labels."""
    rows = range(part.first_row, part.first_row + part.rows)
    yield from scatter_rows(
        rows, batch=batch, label_mask=batch.loss_mask, max_tokens=max_tokens, ranks=ranks, balance=balance
    )


def all_micro_batches(
    batch: Batch, *, max_tokens: int, ranks: Ranks, balance: float, first: int = 0
) -> Iterator[MicroBatch]:
    """This rank's micro-batches from mini-batch `first` on, packed as in training."""
    for part in batch.minibatches[first:]:
        yield from micro_batches_of(part, batch, max_tokens=max_tokens, ranks=ranks, balance=balance)


class Trainer:
    """`prox`: F32 [T] for a policy loss, None for RFT; `reference`: F32 [T] with KL or DPO. `check_stop` raises on all ranks at once if
    the job was asked to stop; `before_update` runs after the last backward pass and before the update.

    Every rank holds the whole batch, cuts it the same way and runs the same number of passes. Gradients are summed over ranks.
    """

    def __init__(
        self,
        *,
        scorer: Scorer,
        ranks: Ranks,
        optimizer: torch.optim.Optimizer,
        batch: Batch,
        config: Config,
        prox: Array | None,
        max_tokens: int,
        progress: Progress | Silent,
        check_stop: Callable[[], None],
        before_update: Callable[[], None] = lambda: None,
        reference: Array | None = None,
    ) -> None:
        self.scorer = scorer
        self.ranks = ranks
        self.optimizer = optimizer
        self.batch = batch
        self.config = config
        self.prox = prox
        # Commits `prox` before the first update. While it is set, `prox` lacks the first mini-batch, whose training forward pass fills it.
        self.keep_prox: Callable[[], None] | None = None
        self.reference = reference
        self.max_tokens = max_tokens
        self.progress = progress
        self.check_stop = check_stop
        self.before_update = before_update
        self._weights = np.zeros(0, dtype=np.float32)
        self._pairs: Pairs | None = None
        # Loss tokens by trajectory of the current mini-batch, if the loss averages within trajectories.
        self._trajectory_tokens = np.zeros(0, dtype=np.float32)

    @property
    def total_steps(self) -> int:
        return len(self.batch.minibatches) * self.config.epochs

    def micro_batches(self, minibatch: int) -> Iterator[MicroBatch]:
        """This rank's micro-batches; every rank gets the same number."""
        yield from micro_batches_of(
            self.batch.minibatches[minibatch],
            self.batch,
            max_tokens=self.max_tokens,
            ranks=self.ranks,
            balance=self.scorer.balance,
        )

    def all_micro_batches(self, first: int = 0) -> Iterator[MicroBatch]:
        """This rank's micro-batches from mini-batch `first` on."""
        yield from all_micro_batches(
            self.batch, max_tokens=self.max_tokens, ranks=self.ranks, balance=self.scorer.balance, first=first
        )

    def run_step(self, state: TrainerState) -> TrainerState:
        """Runs one optimizer step. Raises JobError 77 before the update if loss or gradient is not finite, or the first ratio is not 1."""
        began = time.monotonic()
        minibatch = state.done % len(self.batch.minibatches)
        part = self.batch.minibatches[minibatch]
        rate = learning_rate(state.global_step, peak=self.config.optimizer.lr, schedule=self.config.schedule)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        keep_prox = self.keep_prox
        correction, gap = (None, None) if keep_prox is not None else self._correct(self._policy_tokens(part))
        if self.config.objective is not None and self.config.objective.algorithm in BY_LENGTH:
            self._trajectory_tokens = self._count_tokens(part)
        if self.config.dpo is not None:
            self._pairs = self._compare_pairs(minibatch, self.config.dpo.coef)
        step = Step()
        self.optimizer.zero_grad(set_to_none=True)
        for number, micro in enumerate(self.micro_batches(minibatch), start=1):
            self.check_stop()
            loss = self._loss(micro, part, step)
            hit("before-backward")
            loss.backward()
            hit("after-backward")
            step.loss += float(loss.detach())
            step.labels += len(micro.index)
            self.progress.emit("micro", done=number, tokens=len(micro.index), opt_step=state.global_step + 1)
        step = step.add_up(self.ranks)
        norm = self._clip_gradient()
        self._check(step, norm, part.loss_tokens, state)
        if keep_prox is not None and self.prox is not None:
            share_forward(self.prox, self._span(part), ranks=self.ranks)
            correction, gap = self._correct(self._policy_tokens(part))
            keep_prox()
            self.keep_prox = None
        self.before_update()
        self.optimizer.step()
        hit("after-update")
        figures = self._metrics(step, norm, rate, part.loss_tokens, part.rows, correction, gap)
        alarms = [{**vars(alarm), "value": plain(alarm.value)} for alarm in find_alarms(figures)]
        metrics = {name: plain(value) for name, value in figures.items()}
        state = TrainerState(
            global_step=state.global_step + 1,
            done=state.done + 1,
            metrics=[*state.metrics, {"global_step": state.global_step + 1, **metrics}],
            alarms=[*state.alarms, *({"global_step": state.global_step + 1, **alarm} for alarm in alarms)],
        )
        seconds = time.monotonic() - began
        self.progress.emit(
            "opt_step",
            global_step=state.global_step,
            opt_step=state.done,
            total=self.total_steps,
            seconds=round(seconds, 3),
            tokens_per_s=round(part.loss_tokens / seconds, 1),
            **metrics,
        )
        for alarm in alarms:
            self.progress.emit("alarm", action="pause", **alarm)
        return state

    def _dropped_share(self) -> float:
        """Share of the batch's tokens that were dropped. The batch does not say in which mini-batches they were."""
        dropped, kept = self.batch.dropped_nonfinite, sum(part.loss_tokens for part in self.batch.minibatches)
        return dropped / max(1, dropped + kept)

    def _span(self, part: Minibatch) -> slice:
        """The mini-batch's tokens in the batch file."""
        offsets = self.batch.offsets
        return slice(int(offsets[part.first_row]), int(offsets[part.first_row + part.rows]))

    def _policy_tokens(self, part: Minibatch) -> Array:
        """Indices of the mini-batch's loss tokens that the policy sampled, in file order."""
        span = self._span(part)
        return span.start + np.flatnonzero(self.batch.policy_tokens(span.start, span.stop))

    def _correct(self, tokens: Array) -> tuple[Correction | None, Array | None]:
        """Correction and v = prox - behaviour over `tokens`: all loss tokens of some rows, sampled by the policy."""
        objective, batch = self.config.objective, self.batch
        if objective is None or self.prox is None or batch.behaviour_logprobs is None:
            return None, None
        v = self.prox[tokens] - batch.behaviour_logprobs[tokens]
        rows = np.unique(np.searchsorted(batch.offsets, tokens, side="right"), return_inverse=True)[1]
        correction = correct(torch.from_numpy(v), torch.from_numpy(rows), objective)
        if len(self._weights) != batch.tokens:
            self._weights = np.zeros(batch.tokens, dtype=np.float32)
        self._weights[tokens] = correction.weights.numpy()
        return correction, v

    def _loss(self, micro: MicroBatch, part: Minibatch, step: Step) -> torch.Tensor:
        objective = self.config.objective
        entropy_trains = objective is not None and objective.entropy_coef is not None
        logprobs, entropy = self.scorer(micro, self.batch.temperature, entropy_trains)
        step.entropy += float(entropy.detach().double().sum())
        if self.config.dpo is not None:
            return self._preference_loss(logprobs, micro, self.config.dpo.coef)
        if objective is None or self.prox is None or self.batch.advantages is None:
            return cross_entropy(logprobs, n_tokens=part.loss_tokens)
        if self.keep_prox is not None:
            tokens = take_forward(self.prox, micro, logprobs, batch=self.batch, ranks=self.ranks)
            self._correct(tokens[self.batch.are_policy_tokens(tokens)])
        device = logprobs.device

        def at_labels(values: Array | None) -> torch.Tensor | None:
            return None if values is None else torch.from_numpy(values[micro.index]).to(device)

        prox = torch.from_numpy(self.prox[micro.index]).to(device)
        if len(prox):
            step.first_gap = max(step.first_gap, float((logprobs.detach() - prox).abs().max()))
        labels = Tokens(
            logp=logprobs,
            prox=prox,
            advantages=torch.from_numpy(self.batch.advantages[micro.index]).to(device),
            weights=torch.from_numpy(self._weights[micro.index]).to(device),
            lengths=self._lengths(micro).to(device) if objective.algorithm in BY_LENGTH else None,
            gaps=self._gaps(micro, part, logprobs.detach() - prox) if objective.algorithm in BY_ROW else None,
            entropy=entropy,
            reference=at_labels(self.reference),
            experts=self._experts_in(micro),
        )
        counts = Counts(tokens=self.config.token_budget or part.loss_tokens, trajectories=part.trajectories)
        loss, stats, divergence = policy_loss(labels, counts, objective)
        step.add(stats)
        step.divergence += float(divergence)
        if labels.experts is not None:
            step.imitated -= float(logprobs.detach()[labels.experts].double().sum())
        return loss

    def _preference_loss(self, logprobs: torch.Tensor, micro: MicroBatch, beta: float) -> torch.Tensor:
        pairs = self._pairs
        if pairs is None:
            raise JobError(INTERNAL, "Expected margins of the mini-batch's pairs before its loss")
        owners = self.batch.owners[self._rows_of(micro)]
        signs, margins, shares = (
            torch.from_numpy(values[owners]).to(logprobs.device)
            for values in (pairs.signs, pairs.margins_of, pairs.shares)
        )
        return dpo(logprobs, signs=signs, margins=margins, shares=shares, beta=beta, pairs=len(pairs.margins))

    def _compare_pairs(self, minibatch: int, beta: float) -> Pairs:
        """Scores the mini-batch once without gradient. A pair's gradient depends on the sums of both trajectories, which may be in
        different micro-batches and on different ranks, and may not fit into memory together."""
        batch, part = self.batch, self.batch.minibatches[minibatch]
        if self.reference is None:
            raise JobError(INTERNAL, "Expected log-probabilities of the reference policy")
        gaps = np.zeros(int(batch.owners.max()) + 1, dtype=np.float64)
        for done, micro in enumerate(self.micro_batches(minibatch), start=1):
            self.check_stop()
            with torch.no_grad():
                logprobs, _ = self.scorer(micro, batch.temperature)
            gap = logprobs.double().cpu().numpy() - self.reference[micro.index]
            np.add.at(gaps, batch.owners[self._rows_of(micro)], gap)
            self.progress.emit("prox", done=done)
        self.ranks.sum_array(torch.from_numpy(gaps))
        order = in_row_order(batch.owners[part.first_row : part.first_row + part.rows])
        chosen, rejected = order[::2], order[1::2]
        margins = beta * (gaps[chosen] - gaps[rejected])
        tokens = self._count_tokens(part)
        signs, margins_of, shares = (np.zeros(len(gaps), dtype=np.float64) for _ in range(3))
        signs[chosen], signs[rejected] = 1, -1
        for side in (chosen, rejected):
            margins_of[side] = margins
            shares[side] = 1 / (tokens[chosen] + tokens[rejected])
        rewards = (float(beta * gaps[chosen].mean()), float(beta * gaps[rejected].mean()))
        return Pairs(signs=signs, margins_of=margins_of, shares=shares, margins=margins, rewards=rewards)

    def _experts_in(self, micro: MicroBatch) -> torch.Tensor | None:
        """Which labels belong to an expert, bool [n]; None if the batch has no experts."""
        experts = self.batch.experts
        return None if experts is None else torch.from_numpy(experts[self._rows_of(micro)]).to(self.ranks.device)

    def _count_tokens(self, part: Minibatch) -> Array:
        """Loss tokens by trajectory. All rows of a trajectory are in one mini-batch."""
        rows = slice(part.first_row, part.first_row + part.rows)
        first, last = int(self.batch.offsets[rows.start]), int(self.batch.offsets[rows.stop])
        mask = self.batch.loss_mask[first:last].astype(np.int64)
        per_row = np.add.reduceat(mask, self.batch.offsets[rows] - first)
        return np.bincount(self.batch.owners[rows], per_row).astype(np.float32)

    def _lengths(self, micro: MicroBatch) -> torch.Tensor:
        return torch.from_numpy(self._trajectory_tokens[self.batch.owners[self._rows_of(micro)]])

    def _gaps(self, micro: MicroBatch, part: Minibatch, gap: torch.Tensor) -> torch.Tensor:
        """Mean of gap, [n], over the loss tokens of each label's row. Sums over context parallel ranks, which share rows."""
        rows = torch.from_numpy(self._rows_of(micro) - part.first_row)
        sums = torch.zeros(2, part.rows, dtype=torch.float64)
        sums[0].index_add_(0, rows, gap.cpu().double())
        sums[1].index_add_(0, rows, torch.ones(len(rows), dtype=torch.float64))
        total, count = self.ranks.sum_over_row(sums)
        return (total / count.clamp(min=1))[rows].float().to(gap.device)

    def _rows_of(self, micro: MicroBatch) -> Array:
        return np.searchsorted(self.batch.offsets, micro.index, side="right") - 1

    def _clip_gradient(self) -> float:
        limit = self.config.optimizer.grad_clip
        norm = torch.nn.utils.clip_grad_norm_(self.scorer.parameters(), math.inf if limit is None else limit)
        return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)

    def _check(self, step: Step, norm: float, n_tokens: int, state: TrainerState) -> None:
        """Raises JobError 70 or 77. Every rank checks the same figures, so all ranks raise or none does."""
        if step.labels != n_tokens:
            raise JobError(INTERNAL, f"Expected each of {n_tokens} loss tokens once over all ranks, got {step.labels}")
        for name, value in (("loss", step.loss), ("grad_norm", norm)):
            if not math.isfinite(value):
                self.progress.emit("alarm", metric=name, value=value, limit="finite", action="halt")
                raise JobError(
                    DIVERGED, f"Expected a finite {name} at global step {state.global_step + 1}, got {value}"
                )
        objective = self.config.objective
        if state.done or objective is None or objective.prox != "recompute":
            return
        tolerance = FIRST_RATIO_TOLERANCE[self.ranks.device.type]
        if step.first_gap > tolerance:
            self.progress.emit("alarm", metric="first_ratio", value=step.first_gap, limit=tolerance, action="halt")
            raise JobError(
                DIVERGED, f"Expected ratio 1 at the first step within {tolerance:g}, got a gap of {step.first_gap:g}"
            )

    def _metrics(
        self,
        step: Step,
        norm: float,
        rate: float,
        n_tokens: int,
        rows: int,
        correction: Correction | None,
        v: Array | None,
    ) -> dict[str, Any]:
        metrics: dict[str, Any] = {
            "loss": step.loss,
            "grad_norm": norm,
            "n_tokens": n_tokens,
            "rows": rows,
            "lr": rate,
            "entropy": step.entropy / n_tokens,
        }
        if self._pairs is not None:
            chosen, rejected = self._pairs.rewards
            metrics |= {
                "pairs": len(self._pairs.margins),
                "pair_accuracy": float((self._pairs.margins > 0).mean()),
                "chosen_reward": chosen,
                "rejected_reward": rejected,
            }
        if correction is None or v is None:
            return metrics
        # Experts' tokens have no ratio.
        own = len(v)
        if own < n_tokens:
            metrics |= {"expert_tokens": n_tokens - own, "expert_nll": step.imitated / (n_tokens - own)}
        if own == 0:
            return metrics
        pull = {} if self.reference is None else {"kl_reference": step.divergence / own}
        return {
            **metrics,
            **mismatch_metrics(v),
            **pull,
            "clip_low": step.clip_low / own,
            "clip_high": step.clip_high / own,
            "dual_clip": step.dual_clip / own,
            "tis_capped": correction.capped,
            "masked_frac": correction.masked,
            "ratio_mean": step.ratio_sum / own,
            "ratio_max": step.ratio_max,
            "dropped_nonfinite": self._dropped_share(),
        }
