"""Spec and config: an unknown, ignored, contradictory or unsupported setting gives exit 64."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from job_files import make_config, make_draft, make_job

from longhaul_trainer.config import parse_config
from longhaul_trainer.failures import JobError
from longhaul_trainer.step.command import step
from longhaul_trainer.step.spec import job_key, parse_spec


@pytest.fixture
def spec(tmp_path: Path, policy: Path) -> dict[str, Any]:
    return make_job(tmp_path, policy, make_draft(policy, stage="rft", groups=2), make_config("rft")).spec


def test_key_is_the_hash_of_three_hashes() -> None:
    # printf 'longhaul-step/1\na\nb\nc\n' | sha256sum
    expected = "bfbe365b7e621545a96ee4186476a6742c8ce7ef59f69a71bf83d89cac24c41e"
    assert job_key(input_sha256="a", batch_sha256="b", config_sha256="c") == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("surprise",), 1),
        (("execution", "surprise"), 1),
        (("execution", "cp"), 2),
        (("execution", "nodes"), 0),
        (("execution", "ranks_per_node"), "8"),
        (("execution", "ac"), "some"),
        # Without checkpointing there are no kept inputs to offload; on a CPU the optimizer is already on the host.
        (("execution", "offload"), "activations"),
        (("execution", "offload"), "optimizer"),
        (("execution", "device"), "tpu"),
        (("key",), "0" * 64),
        (("job_id",), "rft-0000000000000000"),
        (("output", "policy_version"), "v1"),
        (("input", "uri"), "s3://bucket/base"),
        (("run", "global_step"), -1),
        (("fence",), "1"),
    ],
)
def test_spec_that_does_not_fit_is_refused(spec: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    at = spec
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    with pytest.raises(JobError) as caught:
        parse_spec(spec)
    assert caught.value.code == 64
    assert path[-1] in caught.value.message


def edited(stage: str, path: tuple[str, ...], value: object) -> bytes:
    config = make_config(stage)
    at = config
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    return json.dumps(config).encode()


@pytest.mark.parametrize(
    ("stage", "path", "value"),
    [
        ("rft", ("objective",), {"clip_low": 0.2}),
        ("rft", ("surprise",), 1),
        ("rft", ("lora",), {"rank": 0}),
        ("rft", ("lora",), {"rank": 16, "targets": ["q_proj"]}),
        ("rft", ("rope",), {"rope_type": "yarn"}),
        ("rft", ("rope",), {"type": "yarn", "factor": 0.5, "original_max": 32768}),
        ("rft", ("optimizer", "states"), "int8"),
        ("rft", ("schedule", "total_steps"), 10),
        ("rft", ("schedule", "end_lr"), 0.0),
        ("rft", ("schedule", "kind"), "step"),
        ("rft", ("optimizer", "name"), "sgd"),
        ("rft", ("optimizer", "momentum"), 0.9),
        ("rft", ("loss_version",), 2),
        ("dapo", ("objective", "icepop_range"), [0.5, 5.0]),
        ("dapo", ("objective", "geo_range"), [0.99, 1.01]),
        ("dapo", ("objective", "correction"), "none"),
        ("dapo", ("objective", "prox"), "behaviour"),
        ("dapo", ("objective", "dual_clip"), 0.5),
        ("dapo", ("export",), {"dtype": "int8"}),
        ("dapo", ("epochs",), 0),
    ],
)
def test_config_with_an_unknown_or_ignored_switch_is_refused(stage: str, path: tuple[str, ...], value: object) -> None:
    with pytest.raises(JobError) as caught:
        parse_config(edited(stage, path, value))
    assert caught.value.code == 64


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("lora",), {"rank": 0}, "Expected `rank` in config.lora to be an integer of at least 1, got 0"),
        (("lora",), {}, "Expected field `rank` in config.lora"),
        (("stage",), "sft", "Expected `stage` in config to be 'rft' or 'dapo', got 'sft'"),
        (("seed",), 2**32, "Expected `seed` in config to be an integer from 0 to 4294967295, got 4294967296"),
        (("seed",), -1, "Expected `seed` in config to be an integer from 0 to 4294967295, got -1"),
        (
            ("max_policy_lag",),
            None,
            "Expected `max_policy_lag` in config to be an integer of at least 0 with stage dapo, got None",
        ),
    ],
)
def test_an_invalid_value_has_one_error(path: tuple[str, ...], value: object, message: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_config(edited("dapo", path, value))
    assert (caught.value.code, caught.value.message) == (64, message)


def test_the_largest_seed_makes_adapters(tmp_path: Path, policy: Path) -> None:
    config = make_config("rft", seed=2**32 - 1, lora={"rank": 2}, epochs=1, canary="none")
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft", groups=2), config)
    assert step(job.write(), dry_run=False) == 0


def test_config_edited_after_the_spec_was_written_is_refused(tmp_path: Path, policy: Path) -> None:
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft", groups=2), make_config("rft"))
    (tmp_path / "config.json").write_text(json.dumps(make_config("rft", seed=8)))
    assert step(job.write(), dry_run=True) == 64


def test_profiles_fill_in_missing_options() -> None:
    bounds = {"clip_low": 0.2, "clip_high": 0.3}
    paper = parse_config(json.dumps(make_config("dapo", objective={"profile": "paper", **bounds})).encode()).objective
    assert paper is not None
    assert (paper.correction, paper.dual_clip, paper.prox) == ("none", None, "recompute")
    safe = parse_config(json.dumps(make_config("dapo", objective={"profile": "safe", **bounds})).encode()).objective
    assert safe is not None
    assert (safe.correction, safe.tis_cap, safe.dual_clip) == ("tis", 2.0, 3.0)


def test_wrong_global_step_or_carry_from_a_model_directory_is_refused(tmp_path: Path, policy: Path) -> None:
    draft = make_draft(policy, stage="rft", groups=2)
    late = make_job(tmp_path / "late", policy, draft, make_config("rft"), global_step=3)
    assert step(late.write(), dry_run=True) == 64
    carry = make_job(tmp_path / "carry", policy, draft, make_config("rft", optimizer_init="carry"))
    assert step(carry.write(), dry_run=True) == 64


def test_torn_input_is_refused_with_66(tmp_path: Path, policy: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(policy, copy)
    job = make_job(tmp_path / "job", copy, make_draft(policy, stage="rft", groups=2), make_config("rft"))
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert step(job.write(), dry_run=True) == 66
    (copy / "COMMITTED").unlink()
    assert step(job.write(fence=2), dry_run=True) == 66


@pytest.mark.parametrize("stage", ["rft", "dapo"])
def test_published_examples_are_accepted(stage: str) -> None:
    examples = Path(__file__).parent / "fixtures"
    spec = parse_spec(json.loads((examples / f"{stage}.spec.json").read_text()))
    config = parse_config((examples / f"{stage}.config.json").read_bytes())
    assert spec.stage == config.stage == json.loads((examples / f"{stage}.batch.json").read_text())["stage"]
