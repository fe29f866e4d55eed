"""config.json: every setting that changes the result of a job. A field that the chosen mode ignores is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator, model_validator

from longhaul_trainer.failures import INVALID_SPEC, JobError
from longhaul_trainer.rope import Yarn
from longhaul_trainer.strict import Count, NotNegative, Positive, Strict, Whole, expected, explain, off_or

LOSS_VERSION = 1

# Defaults of each profile. A switch that config.json sets wins.
PROFILES: dict[Any, dict[str, Any]] = {
    "safe": {"prox": "recompute", "correction": "tis", "seq_mask": "none", "dual_clip": 3.0},
    "paper": {"prox": "recompute", "correction": "none", "seq_mask": "none", "dual_clip": "none"},
}
# Fields that only some values of a switch use: field → (switch, values).
BELONGS_TO = {
    "tis_cap": ("correction", ("tis", "sequence_tis", "geometric_tis")),
    "icepop_range": ("correction", ("icepop",)),
    "geo_range": ("seq_mask", ("geo",)),
    "length": ("algorithm", ("dr_grpo",)),
}
# Algorithms that average over tokens. Only these can divide by a constant token budget instead of the token count.
TOKEN_MEANS = ("dapo", "cispo")

# Torch takes 64 bits, and adapters put a hash of 32 bits below the seed.
Seed = Annotated[int, Field(ge=0, lt=2**32), expected("an integer from 0 to 4294967295")]
# JSON has no tuples: a pair arrives as a list.
Pair = Annotated[tuple[float, float], Field(strict=False), expected("a list of two numbers")]


class Kl(Strict):
    """KL penalty towards a reference policy. The spec names its directory."""

    coef: Positive
    reference_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), expected("a SHA-256 in hex")]


class Objective(Strict):
    """The algorithm and its switches. None: the switch is off."""

    algorithm: Literal["dapo", "grpo", "dr_grpo", "gspo", "cispo"] = "dapo"
    # Dr. GRPO's constant: the maximum number of loss tokens of a trajectory.
    length: Count | None = None
    entropy_coef: Positive | None = None
    kl: Kl | None = None
    profile: Literal["safe", "paper"] = "safe"
    prox: Literal["recompute", "behaviour"]
    correction: Literal["tis", "sequence_tis", "geometric_tis", "icepop", "none"]
    tis_cap: Positive = 2.0
    icepop_range: Pair = (0.5, 5.0)
    seq_mask: Literal["none", "geo"]
    geo_range: Pair = (0.99, 1.01)
    dual_clip: Annotated[Annotated[float, Field(gt=1)] | None, off_or('a number above 1, or "none"')]
    clip_low: Positive
    clip_high: Positive

    @model_validator(mode="before")
    @classmethod
    def _fill_from_profile(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        profile = value.get("profile", "safe")
        return {**(PROFILES.get(profile, {}) if isinstance(profile, str) else {}), **value}

    @model_validator(mode="after")
    def _check_switches(self) -> Objective:
        if self.prox == "behaviour" and (self.correction, self.seq_mask) != ("none", "none"):
            # The ratio then already contains the engine mismatch; a correction would count it twice.
            raise ValueError("Expected correction and seq_mask to be none with prox behaviour")
        for name, (switch, settings) in BELONGS_TO.items():
            if name in self.model_fields_set and getattr(self, switch) not in settings:
                raise ValueError(
                    f"Unknown or unused field(s) in config.objective: {name} (it belongs to {switch} {', '.join(settings)})"
                )
        if self.algorithm == "dr_grpo" and self.length is None:
            raise ValueError("Expected field `length` in config.objective with algorithm dr_grpo")
        if self.algorithm == "gspo" and self.correction in ("tis", "icepop"):
            # GSPO has one ratio per row; token-level weights would break it.
            raise ValueError(
                "Expected correction in config.objective to be of whole rows with algorithm gspo "
                f"(sequence_tis, geometric_tis, none), got {self.correction}"
            )
        if self.algorithm == "cispo" and self.dual_clip is not None:
            # CISPO already clips the ratio on both sides, for both signs of the advantage.
            raise ValueError("Expected dual_clip in config.objective to be none with algorithm cispo")
        for name in ("icepop_range", "geo_range"):
            low, high = getattr(self, name)
            if not 0 <= low < high:
                raise ValueError(
                    f"Expected `{name}` in config.objective to be [low, high] with 0 ≤ low < high, got {[low, high]}"
                )
        return self


class Optimizer(Strict):
    name: Literal["adamw"]
    lr: Positive
    betas: Annotated[
        tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]],
        Field(strict=False),
        expected("a list of two numbers in [0, 1)"),
    ]
    eps: Positive
    weight_decay: NotNegative
    grad_clip: Annotated[Annotated[float, Field(gt=0)] | None, off_or('a number above 0, or "none"')]
    # Dtype in which both moments are stored between updates.
    states: Literal["float32", "bfloat16"] = "float32"


class Schedule(Strict):
    kind: Literal["constant", "linear", "cosine"]
    warmup_steps: Whole = 0
    total_steps: Whole = 0
    end_lr: NotNegative = 0.0

    @model_validator(mode="after")
    def _check_decay(self) -> Schedule:
        if self.kind == "constant":
            if unused := sorted(self.model_fields_set & {"total_steps", "end_lr"}):
                raise ValueError(
                    f"Unknown or unused field(s) in config.schedule: {', '.join(unused)} (kind constant does not decay)"
                )
        elif self.total_steps <= self.warmup_steps:
            raise ValueError(
                f"Expected `total_steps` in config.schedule to be above warmup_steps = {self.warmup_steps}, "
                f"got {self.total_steps if 'total_steps' in self.model_fields_set else 'none'}"
            )
        return self


class RopeOptions(Strict):
    type: Literal["yarn"]
    factor: Annotated[float, Field(ge=1), expected("a number of at least 1")]
    original_max: Count


class LoraOptions(Strict):
    """Adapters on every linear layer of the decoder. The default of alpha is twice the rank."""

    rank: Count
    alpha: Positive = Field(default_factory=lambda known: 2.0 * known["rank"])


class Export(Strict):
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"


class Canary(Strict):
    positions: Count = 2048


class Config(Strict):
    schema_: Literal["longhaul.config/1"] = Field(alias="schema")
    loss_version: Annotated[int, Field(ge=LOSS_VERSION, le=LOSS_VERSION), expected(str(LOSS_VERSION))]
    seed: Seed
    stage: Literal["rft", "dapo"]
    # Size of an optimizer step: either trajectories, or loss tokens (C3PO).
    batch_size: Count | None = None
    token_budget: Count | None = None
    epochs: Count = 1
    optimizer_init: Literal["fresh", "carry"]
    # How many policy versions a sampled token may lag behind. None: fine-tuning does not check it.
    max_policy_lag: Whole | None = Field(default_factory=lambda known: 0 if known.get("stage") == "dapo" else None)
    # DPO instead of a policy loss; `coef` is its beta.
    dpo: Kl | None = None
    objective: Objective | None = Field(default=None, validate_default=True)
    optimizer: Optimizer
    schedule: Schedule
    export: Export | None = None
    # JSON null means the default.
    canary: Annotated[
        Canary | None,
        off_or('an object with `positions` of at least 1, or "none"'),
        BeforeValidator(lambda value: {} if value is None else value),
    ] = Canary()
    rope: RopeOptions | None = None
    lora: LoraOptions | None = None

    @field_validator("objective", mode="wrap")
    @classmethod
    def _objective_of_stage(cls, value: Any, validate: Callable[[Any], Any], info: ValidationInfo) -> Objective | None:
        if "stage" in info.data and info.data["stage"] != "dapo" and info.data.get("dpo") is not None:
            raise ValueError("Expected `dpo` in config to be left out with stage rft")
        if info.data.get("stage") == "dapo":
            if "dpo" not in info.data:
                return None
            if (value is None) == (info.data["dpo"] is None):
                raise ValueError("Expected either field `objective` or field `dpo` in config")
            return None if value is None else validate(value)
        if "stage" in info.data and value not in (None, {}):
            # Masked cross-entropy has no switches.
            raise ValueError("Expected `objective` in config to be left out or empty with stage rft")
        return None

    @model_validator(mode="after")
    def _check_steps(self) -> Config:
        if (self.batch_size is None) == (self.token_budget is None):
            raise ValueError("Expected either `batch_size` or `token_budget` in config")
        if self.stage == "dapo" and self.max_policy_lag is None:
            # Null would switch the check off.
            raise ValueError(
                "Expected `max_policy_lag` in config to be an integer of at least 0 with stage dapo, got None"
            )
        if self.dpo is not None and self.batch_size is not None and self.batch_size % 2:
            raise ValueError(f"Expected an even `batch_size` in config with dpo, got {self.batch_size}")
        if self.token_budget is not None and (self.objective is None or self.objective.algorithm not in TOKEN_MEANS):
            raise ValueError(
                f"Expected `batch_size` in config, token_budget goes with algorithm {', '.join(TOKEN_MEANS)}"
            )
        return self

    @property
    def pull(self) -> Kl | None:
        """DPO's or the objective's pull towards the reference policy, if any."""
        return self.dpo or (None if self.objective is None else self.objective.kl)

    @property
    def export_dtype(self) -> str:
        return (self.export or Export()).dtype

    @property
    def canary_positions(self) -> int:
        """0: no canary."""
        return 0 if self.canary is None else self.canary.positions

    @property
    def yarn(self) -> Yarn | None:
        return None if self.rope is None else Yarn(factor=self.rope.factor, original_max=self.rope.original_max)


def parse_config(data: bytes) -> Config:
    """Raises JobError 64."""
    try:
        return Config.model_validate(json.loads(data))
    except ValidationError as error:
        raise JobError(INVALID_SPEC, explain(error, Config, where="config")) from error
    except ValueError as error:
        raise JobError(INVALID_SPEC, f"Expected JSON in config: {error}") from error
