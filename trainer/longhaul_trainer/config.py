"""config.json: everything that changes the result of a job. A field that the chosen mode ignores is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from longhaul_trainer.failures import INVALID_SPEC, JobError
from longhaul_trainer.fields import Fields
from longhaul_trainer.rope import Yarn

SCHEMA = "longhaul.config/1"
LOSS_VERSION = 1
DEFAULT_CANARY_POSITIONS = 2048

# What a profile means where a switch is not spelled out; spelled-out switches win.
PROFILES: dict[str, dict[str, Any]] = {
    "safe": {"prox": "recompute", "correction": "tis", "seq_mask": "none", "dual_clip": 3.0},
    "paper": {"prox": "recompute", "correction": "none", "seq_mask": "none", "dual_clip": "none"},
}


@dataclass(frozen=True)
class Objective:
    """DAPO's switches. None = the switch is off."""

    prox: str
    correction: str
    tis_cap: float
    icepop_range: tuple[float, float]
    seq_mask: str
    geo_range: tuple[float, float]
    dual_clip: float | None
    clip_low: float
    clip_high: float


@dataclass(frozen=True)
class Optimizer:
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    grad_clip: float | None
    # Dtype of both moments between updates.
    states: str


@dataclass(frozen=True)
class Schedule:
    kind: str
    warmup_steps: int
    total_steps: int
    end_lr: float


@dataclass(frozen=True)
class LoraOptions:
    rank: int
    alpha: float


@dataclass(frozen=True)
class Config:
    seed: int
    stage: str
    batch_size: int
    epochs: int
    optimizer_init: str
    max_policy_lag: int | None
    objective: Objective | None
    optimizer: Optimizer
    schedule: Schedule
    export_dtype: str
    canary_positions: int
    rope: Yarn | None
    lora: LoraOptions | None
    raw: dict[str, Any] = field(repr=False)


def parse_config(data: bytes) -> Config:
    """Raises JobError 64."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise JobError(INVALID_SPEC, f"Expected JSON in config: {error}") from error
    top = Fields(value, where="config", code=INVALID_SPEC)
    top.choice("schema", (SCHEMA,))
    top.choice("loss_version", (LOSS_VERSION,))
    stage = top.choice("stage", ("rft", "dapo"))
    config = Config(
        seed=top.whole("seed"),
        stage=stage,
        batch_size=top.whole("batch_size", least=1),
        epochs=top.whole("epochs", 1, least=1),
        optimizer_init=top.choice("optimizer_init", ("fresh", "carry")),
        max_policy_lag=top.whole("max_policy_lag", 0 if stage == "dapo" else None),
        objective=_dapo(top.inner("objective")) if stage == "dapo" else _rft(top.inner("objective", {})),
        optimizer=_optimizer(top.inner("optimizer")),
        schedule=_schedule(top.inner("schedule")),
        export_dtype=_export(top.take("export", None)),
        canary_positions=_canary(top.take("canary", None)),
        rope=_rope(top.take("rope", None)),
        lora=_lora(top.take("lora", None)),
        raw=value,
    )
    top.finish()
    return config


def _rft(fields: Fields) -> None:
    """Masked cross-entropy has no switches."""
    fields.finish()


def _dapo(fields: Fields) -> Objective:
    defaults = PROFILES[fields.choice("profile", tuple(PROFILES), "safe")]
    prox = fields.choice("prox", ("recompute", "behaviour"), defaults["prox"])
    correction = fields.choice("correction", ("tis", "icepop", "none"), defaults["correction"])
    seq_mask = fields.choice("seq_mask", ("none", "geo"), defaults["seq_mask"])
    dual_clip = defaults["dual_clip"]
    if fields.has("dual_clip"):
        dual_clip = fields.number_or_none("dual_clip", above=1.0)
    if prox == "behaviour" and (correction, seq_mask) != ("none", "none"):
        # The ratio then holds the engine mismatch already; correcting it again would count it twice.
        fields.refuse("Expected correction and seq_mask to be none with prox behaviour")
    objective = Objective(
        prox=prox,
        correction=correction,
        tis_cap=fields.number("tis_cap", 2.0, open_end=True) if correction == "tis" else 0.0,
        icepop_range=_range(fields, "icepop_range", (0.5, 5.0)) if correction == "icepop" else (0.0, 0.0),
        seq_mask=seq_mask,
        geo_range=_range(fields, "geo_range", (0.99, 1.01)) if seq_mask == "geo" else (0.0, 0.0),
        dual_clip=None if dual_clip == "none" else dual_clip,
        clip_low=fields.number("clip_low", open_end=True),
        clip_high=fields.number("clip_high", open_end=True),
    )
    fields.finish()
    return objective


def _range(fields: Fields, name: str, default: tuple[float, float]) -> tuple[float, float]:
    low, high = fields.pair(name) if fields.has(name) else default
    if not 0 <= low < high:
        fields.refuse(f"Expected `{name}` in {fields.where} to be [low, high] with 0 ≤ low < high")
    return low, high


def _optimizer(fields: Fields) -> Optimizer:
    fields.choice("name", ("adamw",))
    optimizer = Optimizer(
        lr=fields.number("lr", open_end=True),
        betas=fields.pair("betas"),
        eps=fields.number("eps", open_end=True),
        weight_decay=fields.number("weight_decay"),
        grad_clip=fields.number_or_none("grad_clip", above=0.0),
        states=fields.choice("states", ("float32", "bfloat16"), "float32"),
    )
    if not all(0 <= beta < 1 for beta in optimizer.betas):
        fields.refuse(f"Expected `betas` in [0, 1), got {list(optimizer.betas)}")
    fields.finish()
    return optimizer


def _schedule(fields: Fields) -> Schedule:
    kind = fields.choice("kind", ("constant", "linear", "cosine"))
    warmup = fields.whole("warmup_steps", 0)
    decays = kind != "constant"
    schedule = Schedule(
        kind=kind,
        warmup_steps=warmup,
        total_steps=fields.whole("total_steps", least=warmup + 1) if decays else 0,
        end_lr=fields.number("end_lr", 0.0) if decays else 0.0,
    )
    fields.finish()
    return schedule


def _rope(value: Any) -> Yarn | None:
    if value is None:
        return None
    fields = Fields(value, where="config.rope", code=INVALID_SPEC)
    fields.choice("type", ("yarn",))
    yarn = Yarn(factor=fields.number("factor", least=1.0), original_max=fields.whole("original_max", least=1))
    fields.finish()
    return yarn


def _lora(value: Any) -> LoraOptions | None:
    """Adapters on every linear layer of the decoder; alpha is twice the rank where it is not given."""
    if value is None:
        return None
    fields = Fields(value, where="config.lora", code=INVALID_SPEC)
    rank = fields.whole("rank", least=1)
    lora = LoraOptions(rank=rank, alpha=fields.number("alpha", 2.0 * rank, open_end=True))
    fields.finish()
    return lora


def _export(value: Any) -> str:
    if value is None:
        return "bfloat16"
    fields = Fields(value, where="config.export", code=INVALID_SPEC)
    dtype = fields.choice("dtype", ("bfloat16", "float16", "float32"), "bfloat16")
    fields.finish()
    return dtype


def _canary(value: Any) -> int:
    """Number of canary positions; 0 = no canary."""
    if value is None:
        return DEFAULT_CANARY_POSITIONS
    if value == "none":
        return 0
    fields = Fields(value, where="config.canary", code=INVALID_SPEC)
    positions = fields.whole("positions", least=1)
    fields.finish()
    return positions
