"""One optimizer step of the real trainer on a small batch, on any number of ranks, for comparison with `reference`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from job_files import Draft, make_config, make_draft, score_rows
from reference import ReferenceStep, reference_step
from reference_algorithms import reference_dpo_step, reference_policy_step, reference_turn_advantages

from longhaul_trainer.batch.accounts import InputPolicy
from longhaul_trainer.batch.load import Batch, load_batch
from longhaul_trainer.config import Config, parse_config
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.parallel.shard import whole
from longhaul_trainer.step.state import TrainerState
from longhaul_trainer.step.training import Trainer
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights

SWITCHES: dict[str, dict[str, Any]] = {
    "safe": {"correction": "tis", "tis_cap": 2.0, "seq_mask": "none", "dual_clip": 3.0},
    "icepop": {
        "correction": "icepop",
        "icepop_range": [0.5, 5.0],
        "seq_mask": "geo",
        "geo_range": [0.9, 1.1],
        "dual_clip": 3.0,
    },
    "paper": {"correction": "none", "seq_mask": "none", "dual_clip": "none"},
}
PLAIN = SWITCHES["paper"]
# At least one case for each algorithm and each extra term, in varied combinations.
ALGORITHMS: dict[str, dict[str, Any]] = {
    "grpo": {**PLAIN, "algorithm": "grpo", "kl": {"coef": 0.3}},
    "dr_grpo": {**SWITCHES["safe"], "algorithm": "dr_grpo", "length": 37, "entropy_coef": 0.02},
    "gspo": {**PLAIN, "algorithm": "gspo", "clip_low": 0.003, "clip_high": 0.02},
    "gspo_both": {
        **PLAIN,
        "algorithm": "gspo",
        "correction": "geometric_tis",
        "tis_cap": 1.1,
        "kl": {"coef": 0.1},
        "entropy_coef": 0.05,
    },
    "cispo": {**SWITCHES["icepop"], "algorithm": "cispo", "dual_clip": "none", "entropy_coef": 0.1},
    "sequence": {**PLAIN, "correction": "sequence_tis", "tis_cap": 1.5, "kl": {"coef": 0.2}},
    "geometric": {**PLAIN, "correction": "geometric_tis", "tis_cap": 1.1, "algorithm": "grpo", "entropy_coef": 0.3},
}
SWITCHES |= ALGORITHMS
PER_TOKEN = ("input_ids", "behaviour_logprobs", "advantages", "policy_version", "loss_mask")
# Hash of a reference policy that does not exist: tests draw its log-probabilities at random.
DRAWN = "d" * 64


@dataclass(frozen=True)
class Case:
    """Eight rows, one mini-batch. `objective`: a key of SWITCHES, or None for RFT."""

    root: Path
    policy: Path
    objective: str | None = "safe"
    temperature: float = 1.0
    max_tokens: int = 100_000
    cp: int = 1
    token_budget: int | None = None
    # `adv.step_weight`, for turns with step rewards.
    step_weight: float | None = None
    # Weight of the two trajectories that become experts.
    expert_weight: float | None = None
    # DPO's beta; the case then has no objective.
    beta: float | None = None
    making: dict[str, Any] = field(default_factory=dict)

    @property
    def stage(self) -> str:
        return "rft" if self.objective is None else "dapo"


class Silent:
    """Replaces the progress file."""

    phase = "train"

    def emit(self, event: str, **fields: Any) -> None:
        pass


def write_case(case: Case, *, experts: tuple[int, ...] = (1, 6)) -> None:
    """Writes batch and config once; all ranks and layouts read the same files. experts: their rows, if the case has an expert_weight."""
    draft = make_draft(case.policy, stage=case.stage, groups=2, size=4, batch_size=8, longest=40)
    draft.manifest["sampling"]["temperature"] = case.temperature
    # The policy samples the pad token, so masks must not be derived from ids.
    ids, mask = draft.tensors["input_ids"], draft.tensors["loss_mask"]
    ids[np.flatnonzero(mask)[::5]] = 0
    rows = [part.tolist() for part in np.split(ids, draft.tensors["row_offsets"][1:-1])]
    scores = np.concatenate(score_rows(case.policy, rows, case.temperature))
    draft.tensors["behaviour_logprobs"] = np.where(mask == 1, scores, 0.0).astype(np.float32)
    if case.step_weight is not None:
        reward_turns(draft, case.step_weight)
    if case.beta is not None:
        pair_up(draft)
    if case.expert_weight is not None:
        add_experts(draft, case.expert_weight, rows=experts)
    case.root.mkdir(parents=True, exist_ok=True)
    sha = draft.write(case.root / "batch")
    (case.root / "batch.sha").write_text(sha)
    config = make_config(case.stage, epochs=1)
    config["optimizer"]["grad_clip"] = "none"
    if case.beta is not None:
        config["dpo"] = {"coef": case.beta, "reference_sha256": DRAWN}
        del config["objective"]
    elif case.objective is not None:
        bounds = {"profile": "safe", "prox": "recompute", "clip_low": 0.2, "clip_high": 0.28}
        config["objective"] = {**bounds, **SWITCHES[case.objective]}
        if "kl" in config["objective"]:
            config["objective"]["kl"] = {**config["objective"]["kl"], "reference_sha256": DRAWN}
    if case.token_budget is not None:
        del config["batch_size"]
        config["token_budget"] = case.token_budget
    (case.root / "config.json").write_text(json.dumps(config))


def reward_turns(draft: Draft, weight: float) -> None:
    """Cuts each trajectory's sampled tokens into up to three turns, draws step rewards, and adds each turn's advantage."""
    rng = np.random.default_rng(3)
    entries, tensors = draft.manifest["trajectories"], draft.tensors
    for entry in entries:
        turns = int(rng.integers(1, 4))
        cuts = np.sort(rng.integers(0, entry["sampled_tokens"] + 1, turns - 1))
        counts = np.diff([0, *cuts, entry["sampled_tokens"]]).tolist()
        entry |= {"turns": turns, "turn_tokens": counts}
    draft.manifest["adv"]["step_weight"] = weight
    for group in draft.manifest["groups"]:
        members = sorted((e for e in entries if e["group"] == group["id"]), key=lambda e: e["member"])
        group["step_rewards"] = [(-rng.integers(0, 4, entry["turns"]) / 4).tolist() for entry in members]
        own = reference_turn_advantages(group["step_rewards"], 1e-6)
        for entry, values in zip(members, own, strict=True):
            row = int(np.flatnonzero(tensors["row_trajectory"] == entries.index(entry))[0])
            first = int(tensors["row_offsets"][row])
            places = first + np.flatnonzero(tensors["loss_mask"][first : int(tensors["row_offsets"][row + 1])])
            tensors["advantages"][places] += np.repeat(weight * np.array(values), entry["turn_tokens"])


def pair_up(draft: Draft) -> None:
    """Reorders the rows of one mini-batch into pairs, each success before a failure of its group."""
    manifest, tensors = draft.manifest, draft.tensors
    outcomes = {group["id"]: group["outcomes"] for group in manifest["groups"]}
    sides: dict[tuple[str, int], list[int]] = {}
    for row, owner in enumerate(tensors["row_trajectory"].tolist()):
        entry = manifest["trajectories"][owner]
        outcome = outcomes[entry["group"]][entry["member"]]
        entry["advantage"] = 1 if outcome == 1 else -1
        sides.setdefault((entry["group"], outcome), []).append(row)
    order = [row for group in outcomes for pair in zip(sides[group, 1], sides[group, 0], strict=True) for row in pair]
    parts = {name: np.split(tensors[name], tensors["row_offsets"][1:-1]) for name in PER_TOKEN}
    owners = tensors["row_trajectory"][order]
    lengths = np.diff(tensors["row_offsets"])[order]
    for name, pieces in parts.items():
        tensors[name] = np.concatenate([pieces[row] for row in order])
    tensors["row_trajectory"] = owners
    tensors["row_offsets"] = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    signs = np.array([entry["advantage"] for entry in manifest["trajectories"]], dtype=np.float32)
    tensors["advantages"] = np.where(tensors["loss_mask"] == 1, np.repeat(signs[owners], lengths), 0).astype(np.float32)
    manifest["adv"] = {"pairs": "outcome", "filter": "outcome"}


def add_experts(draft: Draft, weight: float, *, rows: tuple[int, ...]) -> None:
    """Turns the trajectories in these rows into experts, in the pipeline's format."""
    tensors = draft.tensors
    for row in rows:
        span = slice(int(tensors["row_offsets"][row]), int(tensors["row_offsets"][row + 1]))
        entry = draft.manifest["trajectories"][int(tensors["row_trajectory"][row])]
        entry |= {"expert": weight, "member": None, "advantage": None}
        entry.pop("turn_tokens", None)
        tensors["advantages"][span] = np.where(tensors["loss_mask"][span] == 1, weight, 0)
        tensors["behaviour_logprobs"][span] = 0
        tensors["policy_version"][span] = -1


def open_case(case: Case) -> tuple[Batch, Config, np.ndarray[Any, Any] | None]:
    """Batch, config, and proximal log-probabilities that differ enough from the weights' that every clip binds somewhere."""
    config = parse_config((case.root / "config.json").read_bytes())
    manifest = json.loads((case.root / "batch" / "batch.json").read_text())
    batch = load_batch(
        case.root / "batch",
        manifest_sha256=(case.root / "batch.sha").read_text(),
        stage=case.stage,
        iteration=0,
        batch_size=config.batch_size,
        token_budget=config.token_budget,
        tokenizer_sha256=manifest["tokenizer_sha256"],
        vocab_size=manifest["vocab_size"],
        policy=InputPolicy(version=None, manifest_sha256=manifest["policies"][0]["manifest_sha256"]),
        max_policy_lag=config.max_policy_lag,
        pairs=config.dpo is not None,
    )
    if case.objective is None or batch.behaviour_logprobs is None:
        return batch, config, None
    rng = np.random.default_rng(5)
    spread = np.repeat(rng.choice([0.02, 0.8], batch.rows), np.diff(batch.offsets))
    noise = (rng.normal(0, 1, batch.tokens) * spread).astype(np.float32)
    return batch, config, np.where(batch.loss_mask == 1, batch.behaviour_logprobs + noise, 0).astype(np.float32)


def draw_reference(batch: Batch) -> np.ndarray[Any, Any]:
    """Random log-probabilities of a reference policy, above and below those of the weights."""
    assert batch.behaviour_logprobs is not None
    noise = np.random.default_rng(6).normal(0, 0.5, batch.tokens)
    return np.where(batch.loss_mask == 1, batch.behaviour_logprobs + noise, 0).astype(np.float32)


def run_case(case: Case, ranks: Ranks | None = None) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Full gradients by parameter name, and the step's metrics. A collective."""
    ranks = ranks or Ranks(device=torch.device("cpu"))
    batch, config, prox = open_case(case)
    scorer = make_scorer(case.policy, hugging_face_weights(case.policy), ModelOptions(ranks=ranks, **case.making))
    trainer = Trainer(
        scorer=scorer,
        ranks=ranks,
        # Rate 0: the weights stay, and gradients remain to be read.
        optimizer=torch.optim.SGD(scorer.parameters(), lr=0.0),
        batch=batch,
        config=config,
        prox=None if config.dpo is not None else prox,
        max_tokens=case.max_tokens,
        progress=Silent(),  # pyright: ignore[reportArgumentType]
        check_stop=lambda: None,
        reference=None if config.pull is None else draw_reference(batch),
    )
    # Not the job's first step, which requires a ratio of 1.
    state = trainer.run_step(TrainerState(global_step=1, done=1, metrics=[], alarms=[]))
    named = {name: whole(p.grad) for name, p in scorer.model.named_parameters() if p.grad is not None}
    return named, state.metrics[-1]


def expect_case(case: Case) -> ReferenceStep:
    batch, _, prox = open_case(case)
    rows = []
    for row in range(batch.rows):
        span = slice(int(batch.offsets[row]), int(batch.offsets[row + 1]))
        entry: dict[str, Any] = {"ids": np.array(batch.input_ids[span]), "mask": np.array(batch.loss_mask[span])}
        if prox is not None and batch.advantages is not None and batch.behaviour_logprobs is not None:
            entry |= {
                "advantages": batch.advantages[span],
                "prox": prox[span],
                "behaviour": batch.behaviour_logprobs[span],
                "reference": draw_reference(batch)[span],
            }
            if batch.experts is not None and batch.experts[row]:
                entry["expert"] = case.expert_weight
        rows.append(entry)
    if case.beta is not None:
        return reference_dpo_step(case.policy, rows, temperature=case.temperature, beta=case.beta)
    stated = json.loads((case.root / "config.json").read_text())["objective"] if case.objective is not None else None
    is_more = (case.token_budget, case.step_weight, case.expert_weight) != (None, None, None)
    if stated is not None and (case.objective in ALGORITHMS or is_more):
        return reference_policy_step(
            case.policy, rows, temperature=case.temperature, objective=stated, token_budget=case.token_budget
        )
    return reference_step(case.policy, rows, temperature=case.temperature, objective=stated)


def worst_error(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """Largest norm of the difference in any parameter's gradient, relative to the norm of the full gradient.

    Relative to each parameter's own norm it would measure rounding wherever a gradient nearly cancels.
    """
    assert found.keys() == expected.keys()
    norm = torch.cat([value.double().flatten() for value in expected.values()]).norm()
    return max(float((found[name].double() - expected[name].double()).norm() / norm) for name in expected)
