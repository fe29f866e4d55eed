"""Checks that the trainer reads what the pipeline writes. `fixtures/written-jobs.json` holds jobs written by the pipeline's own code; its
test (`written-jobs.test.ts`) fails if the pipeline would write others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import pytest

from longhaul_trainer.config import Config, parse_config
from longhaul_trainer.failures import JobError
from longhaul_trainer.step.spec import Spec, WindowSpec, parse_spec, parse_window_spec
from longhaul_trainer.strict import Strict

WRITTEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "fixtures" / "written-jobs.json").read_text())
# Fields that the pipeline always writes and the trainer reads with a default: jobs written by hand may omit them.
OPTIONAL = {
    *(
        f"spec.execution.{name}"
        for name in ["deterministic", "max_tokens_per_micro", "threads", "timeout_s", "grace_s", "stall_s"]
    ),
    *(
        f"spec.execution.{name}"
        for name in ["nodes", "ranks_per_node", "cp", "ac", "offload", "inner_every", "inner_every_s"]
    ),
    *(
        f"config.{name}"
        for name in [
            "batch_size",
            "token_budget",
            "epochs",
            "max_policy_lag",
            "export",
            "export.dtype",
            "rope",
            "lora",
            "lora.alpha",
            "optimizer.states",
        ]
    ),
    *(f"config.schedule.{name}" for name in ["warmup_steps", "end_lr"]),
    *(
        f"config.objective.{name}"
        for name in ["profile", "prox", "correction", "tis_cap", "icepop_range", "seq_mask", "geo_range", "dual_clip"]
    ),
    *(f"config.objective.{name}" for name in ["algorithm", "length", "entropy_coef", "kl"]),
    "spec.reference",
}
NULLABLE = {
    *(
        "spec.execution.threads",
        "spec.reference",
        "config.max_policy_lag",
        "config.export",
        "config.rope",
        "config.lora",
    ),
    *("config.objective.entropy_coef", "config.objective.kl"),
}
# "none" instead of a number switches it off.
OFF_OR_NUMBER = {"config.objective.dual_clip"}
# Fields that the trainer reads and the pipeline leaves to their defaults.
UNWRITTEN = {"config.canary", "config.canary.positions"}


def fields(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, inner in value.items():
        yield (*at, name)
        if isinstance(inner, dict):
            yield from fields(inner, (*at, name))


def read(part: str, value: Any) -> Any:
    if part == "config":
        return parse_config(json.dumps(value).encode())
    return (parse_window_spec if value.get("schema") == "longhaul.window/1" else parse_spec)(value)


def parts() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for job in WRITTEN:
        for part in ("spec", "config"):
            if job[part] is not None:
                yield job["name"], part, job[part]


def refused(part: str, value: Any) -> str | None:
    """Message of the refusal; None if the value was accepted."""
    try:
        read(part, value)
    except JobError as error:
        return f"{error.code}: {error.message}"
    return None


def others(value: Any) -> list[Any]:
    """Values of every other type."""
    kinds: list[Any] = ["text", 7, 0.5, True, [], {}, None]
    same = (int, float) if type(value) in (int, float) else (type(value),)
    # Integers and floats count as one type; a boolean is not a number.
    return [other for other in kinds if type(other) not in same]


@pytest.mark.parametrize(
    ("name", "part", "value"), list(parts()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_field_that_is_missing_renamed_or_of_another_type_is_refused(
    name: str, part: str, value: dict[str, Any]
) -> None:
    read(part, value)
    for path in fields(value):
        where = ".".join((part, *path))
        for change in ("remove", "rename", *others(at(value, path))):
            changed = deepcopy(value)
            place = at(changed, path[:-1])
            old = place.pop(path[-1])
            if change == "rename":
                place[f"{path[-1]}s"] = old
            elif change != "remove":
                place[path[-1]] = change
            if where in OFF_OR_NUMBER and type(change) in (int, float):
                continue
            message = refused(part, changed)
            if (change == "remove" and where in OPTIONAL) or (change is None and where in NULLABLE):
                continue
            assert message is not None, f"{where}: {change!r}"
            assert message.startswith("64: ")
            assert "\n" not in message
            # The message names the field, or its parent: a missing total_steps, for example, is an error of the schedule.
            assert any(name in message for name in path[-2:]), message


def at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


def known(model: type[Strict], at: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        where = f"{at}.{field.alias or name}"
        yield where
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, Strict):
                yield from known(kind, where)


def test_the_trainer_reads_no_field_that_the_pipeline_never_writes() -> None:
    written = {".".join((part, *path)) for _, part, value in parts() for path in fields(value)}
    read = {*known(Spec, "spec"), *known(WindowSpec, "spec"), *known(Config, "config")}
    assert read - written == UNWRITTEN
    assert written - read == set()
