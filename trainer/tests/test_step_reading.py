"""Inputs and end of a job: the spec field by field, inputs, stored state, and the exit code of every kind of failure."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from job_files import make_config, make_draft, make_job
from safetensors.torch import save_file
from torch._subclasses.fake_tensor import FakeTensorMode

from longhaul_trainer.config import parse_config
from longhaul_trainer.directory import mark_committed, open_sealed, seal, write_manifest
from longhaul_trainer.failures import INPUT_UNUSABLE, INVALID_SPEC, JobError, LostRanks
from longhaul_trainer.lean_adamw import LeanAdamW
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.step import command, state
from longhaul_trainer.step.failpoints import VARIABLE
from longhaul_trainer.step.inputs import open_input
from longhaul_trainer.step.place import launch_id
from longhaul_trainer.step.spec import Execution, WindowSpec, parse_spec, read_spec
from longhaul_trainer.step.stop import StopFlag

A, B, C = "a" * 64, "b" * 64, "c" * 64
KEY = hashlib.sha256(f"longhaul-step/1\n{A}\n{B}\n{C}\n".encode()).hexdigest()
WINDOW_KEY = hashlib.sha256(f"longhaul-window/1\n{A}\n".encode()).hexdigest()


def refused(work: Any, *arguments: Any, code: int = INVALID_SPEC, **named: Any) -> str:
    with pytest.raises(JobError) as caught:
        work(*arguments, **named)
    assert caught.value.code == code
    return caught.value.message


def full_spec() -> dict[str, Any]:
    """A spec with every field and distinct values."""
    return {
        "schema": "longhaul.step/1",
        "job_id": f"dapo-{KEY[:16]}",
        "key": KEY,
        "stage": "dapo",
        "run": {"id": "run-1", "iteration": 2, "global_step": 3},
        "input": {"kind": "checkpoint", "uri": "file:///in%20put", "manifest_sha256": A},
        "batch": {"uri": "file://localhost/batch", "manifest_sha256": B},
        "config": {"uri": "file:///config.json", "sha256": C},
        "output": {
            "checkpoint_uri": "file:///checkpoint",
            "policy_uri": "file:///policy",
            "policy_version": f"v000004-{KEY[:8]}",
        },
        "work": {"job_dir": "/job", "scratch_dir": "/scratch"},
        "execution": {
            "device": "cuda",
            "deterministic": True,
            "max_tokens_per_micro": 5,
            "inner_every": 6,
            "inner_every_s": 90,
            "threads": 7,
            "timeout_s": 8.5,
            "stall_s": 9.5,
            "grace_s": 10.5,
            "nodes": 3,
            "ranks_per_node": 4,
            "cp": 2,
            "ac": "full",
            "offload": "both",
        },
        "attempt": 11,
        "fence": 12,
    }


FULL = Execution(
    device="cuda",
    deterministic=True,
    max_tokens_per_micro=5,
    inner_every=6,
    inner_every_s=90.0,
    threads=7,
    timeout_s=8.5,
    grace_s=10.5,
    stall_s=9.5,
    nodes=3,
    ranks_per_node=4,
    cp=2,
    ac="full",
    offload="both",
)


def test_spec_is_read_field_by_field() -> None:
    spec = parse_spec(full_spec())
    assert spec.model_dump(by_alias=True) == {**full_spec(), "reference": None}
    assert spec.execution == FULL
    assert spec.job_dir == Path("/job")
    assert [place.path for place in (spec.input, spec.batch, spec.config)] == [
        Path("/in put"),
        Path("/batch"),
        Path("/config.json"),
    ]
    assert (spec.output.checkpoint_path, spec.output.policy_path) == (Path("/checkpoint"), Path("/policy"))
    assert spec.parents == {"input_manifest_sha256": A, "batch_manifest_sha256": B, "config_sha256": C}


def test_reference_is_a_directory_identified_by_its_hash() -> None:
    reference = {"uri": "file:///reference", "manifest_sha256": C}
    spec = parse_spec({**full_spec(), "reference": reference})
    assert spec.reference is not None
    assert (spec.reference.path, spec.reference.manifest_sha256) == (Path("/reference"), C)
    for name in reference:
        value = {**full_spec(), "reference": {key: one for key, one in reference.items() if key != name}}
        assert refused(parse_spec, value) == f"Expected field `{name}` in spec.reference"


def test_execution_has_defaults_for_all_but_the_device() -> None:
    value = full_spec()
    value["execution"] = {"device": "cpu"}
    assert parse_spec(value).execution == Execution(
        device="cpu",
        deterministic=False,
        max_tokens_per_micro=8192,
        inner_every=1,
        inner_every_s=0.0,
        threads=None,
        timeout_s=0.0,
        grace_s=30.0,
        stall_s=0.0,
        nodes=1,
        ranks_per_node=1,
        cp=1,
        ac="none",
        offload="none",
    )
    lowest = {"max_tokens_per_micro": 1, "inner_every": 1, "threads": 1, "nodes": 1, "ranks_per_node": 1, "cp": 1}
    value["execution"] = {"device": "cpu", "timeout_s": 0, "stall_s": 0, "grace_s": 0, **lowest}
    assert parse_spec(value).execution.threads == 1
    for ac in ("none", "full", "save_attention"):
        value["execution"] = {"device": "cpu", "ac": ac}
        assert parse_spec(value).execution.ac == ac
    value["execution"] = {"device": "cpu", "ac": "full", "offload": "activations"}
    assert parse_spec(value).execution.offload == "activations"
    value["execution"] = {"device": "cuda", "offload": "optimizer"}
    assert parse_spec(value).execution.offload == "optimizer"


PLACES = [(place, name) for place, fields in full_spec().items() if isinstance(fields, dict) for name in fields]
OPTIONAL = set(full_spec()["execution"]) - {"device"}


@pytest.mark.parametrize(("place", "name"), [*((None, name) for name in full_spec()), *PLACES])
def test_missing_field_is_named(place: str | None, name: str) -> None:
    value = full_spec()
    del (value if place is None else value[place])[name]
    if place == "execution" and name in OPTIONAL:
        return
    where = "spec" if place is None else f"spec.{place}"
    assert refused(parse_spec, value) == f"Expected field `{name}` in {where}"


@pytest.mark.parametrize("place", [None, "run", "input", "batch", "config", "output", "work", "execution"])
def test_unknown_field_is_named(place: str | None) -> None:
    value = full_spec()
    (value if place is None else value[place])["more"] = 1
    where = "spec" if place is None else f"spec.{place}"
    allowed = ", ".join(sorted([*full_spec(), "reference"] if place is None else full_spec()[place]))
    assert refused(parse_spec, value) == f"Unknown or unused field(s) in {where}: more (allowed are {allowed})"


def test_all_errors_are_reported_in_one_line() -> None:
    value = full_spec()
    value["run"] = {"id": 7, "itration": 2, "global_step": 3}
    value["execution"]["threads"] = True
    assert refused(parse_spec, value) == (
        "Expected `threads` in spec.execution to be an integer of at least 1, got True; "
        "Expected `id` in spec.run to be a valid string, got 7; Expected field `iteration` in spec.run; "
        "Unknown or unused field(s) in spec.run: itration (allowed are global_step, id, iteration)"
    )


@pytest.mark.parametrize(
    ("place", "name", "value", "message"),
    [
        (
            None,
            "schema",
            "longhaul.step/2",
            "Expected `schema` in spec to be 'longhaul.step/1', got 'longhaul.step/2'",
        ),
        (None, "stage", "sft", "Expected `stage` in spec to be 'rft' or 'dapo', got 'sft'"),
        ("input", "kind", "gguf", "Expected `kind` in spec.input to be 'hf' or 'checkpoint', got 'gguf'"),
        ("run", "iteration", -1, "Expected `iteration` in spec.run to be an integer of at least 0, got -1"),
        (None, "key", "A" * 64, f"Expected `key` in spec to be a SHA-256 in hex, got {'A' * 64!r}"),
        (
            "batch",
            "manifest_sha256",
            "b" * 63,
            f"Expected `manifest_sha256` in spec.batch to be a SHA-256 in hex, got {'b' * 63!r}",
        ),
        (
            "config",
            "uri",
            "/config.json",
            "Expected `uri` in spec.config to be an absolute file:// uri, got '/config.json'",
        ),
        (
            "batch",
            "uri",
            "file://host/b",
            "Expected `uri` in spec.batch to be an absolute file:// uri, got 'file://host/b'",
        ),
        (
            "input",
            "uri",
            "file:relative",
            "Expected `uri` in spec.input to be an absolute file:// uri, got 'file:relative'",
        ),
        (
            "output",
            "policy_uri",
            "s3://p",
            "Expected `policy_uri` in spec.output to be an absolute file:// uri, got 's3://p'",
        ),
        (
            "output",
            "checkpoint_uri",
            "s3://c",
            "Expected `checkpoint_uri` in spec.output to be an absolute file:// uri, got 's3://c'",
        ),
        *(
            (
                "output",
                "policy_uri",
                uri,
                f"Expected `policy_uri` in spec.output to be an absolute file:// uri, got {uri!r}",
            )
            for uri in ("file:///runs/#1/p", "file:///runs/what?/p", "file:///runs%00/p")
        ),
        (None, "key", B, f"Expected key {KEY} from the three hashes, got {B}"),
        (None, "job_id", "x", f"Expected job_id dapo-{KEY[:16]}, got x"),
        (
            "output",
            "policy_version",
            f"v04-{KEY[:8]}",
            f"Expected policy_version v<6 digits>-{KEY[:8]}, got v04-{KEY[:8]}",
        ),
        (
            "execution",
            "cp",
            5,
            "Expected execution.cp to divide nodes × ranks_per_node = 12, got 5",
        ),
        (
            "execution",
            "ac",
            "none",
            "Expected execution.ac with execution.offload of activations: only kept layer inputs are moved",
        ),
        (
            "execution",
            "device",
            "cpu",
            "Expected execution.offload without optimizer on a CPU: its states are on the host already",
        ),
        *(
            ("execution", name, 0, f"Expected `{name}` in spec.execution to be an integer of at least 1, got 0")
            for name in ("max_tokens_per_micro", "inner_every", "threads", "nodes", "ranks_per_node", "cp")
        ),
        *(
            ("execution", name, -1, f"Expected `{name}` in spec.execution to be a number of at least 0, got -1")
            for name in ("timeout_s", "stall_s", "grace_s", "inner_every_s")
        ),
    ],
)
def test_invalid_value_is_named(place: str | None, name: str, value: object, message: str) -> None:
    spec = full_spec()
    (spec if place is None else spec[place])[name] = value
    assert refused(parse_spec, spec) == message


def window_spec() -> dict[str, Any]:
    spec = full_spec()
    return {
        "schema": "longhaul.window/1",
        "job_id": f"window-{WINDOW_KEY[:16]}",
        "key": WINDOW_KEY,
        "input": {"uri": "file:///input", "manifest_sha256": A},
        "output": {"window_uri": "file:///window"},
        "work": {"job_dir": "/job"},
        "execution": spec["execution"],
        "attempt": 11,
        "fence": 12,
    }


def test_window_spec_is_recognized_by_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(window_spec()))
    spec = read_spec(path)
    assert isinstance(spec, WindowSpec)
    assert spec.model_dump(by_alias=True) == window_spec()
    assert (spec.input.path, spec.job_dir, spec.output.window_path) == (Path("/input"), Path("/job"), Path("/window"))
    edits: list[tuple[str | None, str, object, str]] = [
        (None, "key", KEY, f"Expected key {WINDOW_KEY} from the input's hash, got {KEY}"),
        (None, "job_id", "x", f"Expected job_id window-{WINDOW_KEY[:16]}, got x"),
        ("output", "window_uri", "x", "Expected `window_uri` in spec.output to be an absolute file:// uri, got 'x'"),
        ("input", "uri", "x", "Expected `uri` in spec.input to be an absolute file:// uri, got 'x'"),
        ("input", "manifest_sha256", "x", "Expected `manifest_sha256` in spec.input to be a SHA-256 in hex, got 'x'"),
        (None, "key", "x", "Expected `key` in spec to be a SHA-256 in hex, got 'x'"),
        *(
            (place, "more", 1, f"Unknown or unused field(s) in spec.{place}: more (allowed are {allowed})")
            for place, allowed in (("input", "manifest_sha256, uri"), ("output", "window_uri"), ("work", "job_dir"))
        ),
        (None, "more", 1, f"Unknown or unused field(s) in spec: more (allowed are {', '.join(sorted(window_spec()))})"),
    ]
    for place, name, value, message in edits:
        spec = window_spec()
        (spec if place is None else spec[place])[name] = value
        path.write_text(json.dumps(spec))
        assert refused(read_spec, path) == message
    for place, name in (
        (None, "attempt"),
        (None, "fence"),
        (None, "work"),
        ("work", "job_dir"),
        ("output", "window_uri"),
    ):
        spec = window_spec()
        del (spec if place is None else spec[place])[name]
        path.write_text(json.dumps(spec))
        where = "spec" if place is None else f"spec.{place}"
        assert refused(read_spec, path) == f"Expected field `{name}` in {where}"
    path.write_text("[]")
    assert refused(read_spec, path) == "Expected spec to be an object, got []"
    path.write_text("{")
    assert refused(read_spec, path).startswith(f"Expected JSON in {path}: Expecting property name")
    assert refused(read_spec, tmp_path / "none") == f"Cannot read spec {tmp_path / 'none'}: No such file or directory"


def test_layout_records_every_setting_that_may_change_a_bit() -> None:
    assert FULL.layout() == {
        "device": "cuda",
        "ranks": 12,
        "cp": 2,
        "deterministic": True,
        "max_tokens_per_micro": 5,
        "threads": 7,
    }


# Inputs.


def given(tmp_path: Path, policy: Path, **changes: Any) -> tuple[Any, Any]:
    """Spec and config of an RFT job that starts from `policy`."""
    config = make_config("rft", **changes.pop("config", {}))
    job = make_job(tmp_path / "job", policy, make_draft(policy, stage="rft", groups=1, longest=20), config)
    for name, value in changes.items():
        job.spec["run" if name == "global_step" else "input"][name] = value
    return parse_spec(job.spec), parse_config(json.dumps(config).encode())


def test_input_is_verified_and_described(tmp_path: Path, policy: Path) -> None:
    found = open_input(*given(tmp_path, policy))
    assert found.sealed == open_sealed(policy)
    assert (found.architecture, found.is_checkpoint) == (policy, False)
    assert found.tokenizer_sha256 == hashlib.sha256((policy / "tokenizer.json").read_bytes()).hexdigest()
    assert (found.policy.version, found.policy.manifest_sha256) == (None, found.sealed.sha256)


def copy_with(tmp_path: Path, policy: Path, *, kind: str = "policy", facts: dict[str, Any] | None = None) -> Path:
    path = tmp_path / "input"
    shutil.copytree(policy, path)
    mark_committed(path, write_manifest(path, kind=kind, facts=facts or {}))
    return path


def test_input_that_does_not_fit_the_spec_is_refused(tmp_path: Path, policy: Path) -> None:
    message = "Expected input.kind to fit the directory, got checkpoint for a policy"
    assert refused(open_input, *given(tmp_path / "a", policy, kind="checkpoint")) == message
    checkpoint = copy_with(tmp_path / "b", policy, kind="checkpoint", facts={"global_step": 5})
    message = "Expected input.kind to fit the directory, got hf for a checkpoint"
    assert refused(open_input, *given(tmp_path / "c", checkpoint)) == message
    message = "Expected optimizer_init fresh: a model directory has no optimizer state to carry"
    assert refused(open_input, *given(tmp_path / "d", policy, config={"optimizer_init": "carry"})) == message
    message = "Expected run.global_step 0 as in the input, got 1"
    assert refused(open_input, *given(tmp_path / "e", policy, global_step=1)) == message
    late = copy_with(tmp_path / "f", policy, facts={"global_step": 5, "policy_version": "v000005-00000000"})
    assert refused(open_input, *given(tmp_path / "g", late)) == "Expected run.global_step 5 as in the input, got 0"
    assert open_input(*given(tmp_path / "h", late, global_step=5)).policy.version == "v000005-00000000"


def test_a_job_that_begins_after_the_end_of_its_schedule_is_refused(tmp_path: Path, policy: Path) -> None:
    """Its rate would be end_lr throughout. With an end of 0 the job would train nothing and say nothing."""
    late = tmp_path / "late"
    shutil.copytree(policy, late)
    for name in ("MANIFEST.json", "COMMITTED"):
        (late / name).unlink()
    seal(late, kind="policy", facts={"global_step": 6})
    for total, code in ((6, 64), (7, 0)):
        schedule = {"kind": "cosine", "warmup_steps": 2, "total_steps": total, "end_lr": 0.0}
        draft = make_draft(late, stage="rft")
        job = make_job(tmp_path / str(total), late, draft, make_config("rft", schedule=schedule), global_step=6)
        assert command.step(job.write(), dry_run=True) == code
    message = job_message(tmp_path / "6")
    assert message == (
        "Expected `total_steps` in config.schedule to be above run.global_step = 6, got 6: the whole job would train at end_lr = 0"
    )


def job_message(root: Path) -> str:
    return json.loads((root / "job" / "attempts" / "1" / "exit.json").read_text())["message"]


def test_incomplete_input_is_refused(tmp_path: Path, policy: Path) -> None:
    path = copy_with(tmp_path, policy)
    spec, config = given(tmp_path, path)
    # Ranks share the hashing of files; a single process checks all of them.
    ranks = Ranks(device=torch.device("cpu"))
    weights = path / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    for together in (None, ranks):
        message = refused(open_input, spec, config, together, code=INPUT_UNUSABLE)
        assert message.startswith(f"Expected {weights} to hash to ")
    weights.write_bytes(data)
    assert open_input(spec, config, ranks).architecture == path
    (path / "COMMITTED").unlink()
    message = refused(open_input, spec, config, code=INPUT_UNUSABLE)
    assert message == f"Expected COMMITTED in {path}: the directory was never committed"


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_input_without_a_file_that_every_job_needs_is_refused(tmp_path: Path, policy: Path, name: str) -> None:
    path = tmp_path / "input"
    shutil.copytree(policy, path)
    job = given(tmp_path, path)[0]
    (path / name).unlink()
    mark_committed(path, write_manifest(path, kind="policy", facts={}))
    sealed = job.input.model_copy(update={"manifest_sha256": open_sealed(path).sha256})
    job = job.model_copy(update={"input": sealed})
    config = parse_config(json.dumps(make_config("rft")).encode())
    message = refused(open_input, job, config, code=INPUT_UNUSABLE)
    assert message == f"Expected {name} in {path}"


# Stored state.


def small_model() -> torch.nn.Sequential:
    return model_of(seed=1)


def model_of(seed: int) -> torch.nn.Sequential:
    """A small model with the config fields that the trainer reads."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3))
    model.config = SimpleNamespace(tie_word_embeddings=False, model_type="tiny")  # type: ignore[assignment]
    return model


def test_optimizer_decays_matrices_only_and_takes_the_settings(policy: Path) -> None:
    config = make_config("rft")
    config["optimizer"] |= {"lr": 2e-3, "betas": [0.8, 0.7], "eps": 1e-5, "weight_decay": 0.3}
    model = small_model()
    model[0].bias.requires_grad_(False)
    plain = state.build_optimizer(model, parse_config(json.dumps(config).encode()))
    assert type(plain) is torch.optim.AdamW
    matrices, others = plain.param_groups
    assert [id(p) for p in matrices["params"]] == [id(model[0].weight)]
    assert [id(p) for p in others["params"]] == [id(model[1].weight), id(model[1].bias)]
    for group, decay in ((matrices, 0.3), (others, 0.0)):
        found = {name: group[name] for name in ("lr", "betas", "eps", "weight_decay")}
        assert found == {"lr": 2e-3, "betas": (0.8, 0.7), "eps": 1e-5, "weight_decay": decay}
    on_host = state.build_optimizer(model, parse_config(json.dumps(config).encode()), host=True)
    assert type(on_host) is LeanAdamW
    config["optimizer"]["states"] = "bfloat16"
    lean = state.build_optimizer(model, parse_config(json.dumps(config).encode()))
    assert type(lean) is LeanAdamW
    assert [group["weight_decay"] for group in lean.param_groups] == [0.3, 0.0]
    assert (lean.param_groups[0]["lr"], lean.param_groups[0]["betas"], lean.param_groups[0]["eps"]) == (
        2e-3,
        (0.8, 0.7),
        1e-5,
    )


def test_updates_on_a_gpu_are_fused_and_others_are_not(policy: Path) -> None:
    """The unfused update would hold the denominators of all parameters at once, 4 bytes each, at the peak of a large model's step."""
    config = parse_config(json.dumps(make_config("rft")).encode())
    with FakeTensorMode():
        on_gpu = torch.nn.ParameterList([torch.nn.Parameter(torch.empty(3, 2, device="cuda"))])
        assert state.build_optimizer(on_gpu, config).defaults["fused"] is True
    assert state.build_optimizer(small_model(), config).defaults["fused"] is False


def test_moments_on_the_host_of_a_gpu_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[torch.dtype] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: (pinned.append(self.dtype), self)[1])
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = LeanAdamW([weight], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, states=torch.bfloat16, host=True, seed=1)
    for parameter, expected in ((SimpleNamespace(is_cuda=True), [torch.bfloat16]), (weight, [])):
        pinned.clear()
        assert optimizer.place_state(parameter, torch.ones(2)).tolist() == [1, 1]  # type: ignore[arg-type]
        assert pinned == expected


def stepped(model: torch.nn.Module, updates: int) -> torch.optim.AdamW:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(updates):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    return optimizer


def test_state_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    model = small_model()
    optimizer = stepped(model, 3)
    known = state.TrainerState(global_step=7, done=2, metrics=[{"b": 1, "a": 2.5}, {"c": 3}], alarms=[{"x": 1}])
    torch.manual_seed(99)
    snapshot = state.take_snapshot(model=model, optimizer=optimizer, state=known, facts={"key": "k"})
    expected_dice = torch.rand(3)
    assert snapshot.updates == 3
    snapshot.write_shard(tmp_path / state.WEIGHTS)
    snapshot.write_facts(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"a": 2.5, "b": 1}\n{"c": 3}\n'
    assert state.read_metrics(tmp_path) == known.metrics
    about = state.read_trainer_state(tmp_path)
    assert about == {
        "schema": "longhaul.trainer-state/1",
        "global_step": 7,
        "done": 2,
        "optimizer_updates": 3,
        "alarms": [{"x": 1}],
        "key": "k",
    }
    # Another model of the same shape loads the complete state.
    other = model_of(seed=5)
    fresh = torch.optim.AdamW(other.parameters(), lr=1e-2)
    state.load_weights(tmp_path, model=other)
    state.load_optimizer(tmp_path, model=other, optimizer=fresh)
    state.restore_random_state(tmp_path, Ranks(device=torch.device("cpu")))
    assert torch.equal(torch.rand(3), expected_dice)
    for (name, mine), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs), name
        slots, found = optimizer.state[mine], fresh.state[theirs]
        assert float(found["step"]) == 3.0
        for moment in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(slots[moment], found[moment])
            assert found[moment].dtype == torch.float32
    # The snapshot is a copy: further training does not change it.
    before = {name: tensor.clone() for name, tensor in snapshot.tensors.items()}
    stepped(model, 1)
    assert all(torch.equal(before[name], tensor) for name, tensor in snapshot.tensors.items())
    # With another number of ranks the job's seed stays in effect.
    torch.manual_seed(11)
    dice = torch.rand(2)
    torch.manual_seed(11)
    state.restore_random_state(tmp_path, Ranks(device=torch.device("cpu"), world=2))
    assert torch.equal(torch.rand(2), dice)


def test_a_snapshot_reuses_the_buffers_of_the_last_one_and_may_omit_frozen_weights() -> None:
    model = small_model()
    frozen, trained = (list(dict(model.named_parameters()))[at] for at in (0, 1))
    model.get_parameter(frozen).requires_grad_(False)
    optimizer = stepped(model, 1)
    copies = state.HostCopies()

    def taken(**options: Any) -> dict[str, torch.Tensor]:
        known = state.TrainerState(global_step=0, done=0, metrics=[], alarms=[])
        return state.take_snapshot(
            model=model, optimizer=optimizer, state=known, facts={}, copies=copies, **options
        ).tensors

    first = taken(frozen=False)
    assert f"weight.{frozen}" not in first
    assert f"weight.{frozen}" in taken()
    stepped(model, 1)
    second = taken(frozen=False)
    assert first.keys() == second.keys()
    for name, tensor in second.items():
        assert (tensor.data_ptr() == first[name].data_ptr()) == (name != "rng.cpu"), name
    assert torch.equal(second[f"weight.{trained}"], model.get_parameter(trained))


def test_snapshots_of_a_gpu_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[bool] = []
    empty = torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda *size, pin_memory, **how: (pinned.append(pin_memory), empty(*size, **how))[1]
    )
    for on_gpu in (False, True):
        with monkeypatch.context() as device:
            device.setattr(torch.Tensor, "is_cuda", on_gpu)
            assert state.HostCopies().copy("x", torch.ones(2)).tolist() == [1, 1]
    assert pinned == [False, True]

    def refuse(*size: Any, pin_memory: bool = False, **how: Any) -> torch.Tensor:
        if pin_memory:
            raise RuntimeError("CUDA error: out of memory")
        return empty(*size, **how)

    monkeypatch.setattr(torch, "empty", refuse)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    assert state.HostCopies().copy("x", torch.ones(2)).tolist() == [1, 1]


def test_an_optimizer_that_never_stepped_has_no_moments(tmp_path: Path) -> None:
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    known = state.TrainerState(global_step=0, done=0, metrics=[], alarms=[])
    snapshot = state.take_snapshot(model=model, optimizer=optimizer, state=known, facts={})
    assert snapshot.updates == 0
    assert set(snapshot.tensors) == {"rng.cpu", *(f"weight.{name}" for name, _ in model.named_parameters())}
    snapshot.write_shard(tmp_path / state.WEIGHTS)
    snapshot.write_facts(tmp_path)
    state.load_optimizer(tmp_path, model=model, optimizer=optimizer)
    assert not optimizer.state


def test_shards_are_named_by_rank_and_all_of_them_are_needed(tmp_path: Path) -> None:
    cpu = torch.device("cpu")
    assert state.shard_name(Ranks(device=cpu)) == "state.safetensors"
    assert state.shard_name(Ranks(device=cpu, rank=3, world=12)) == "state-00003-of-00012.safetensors"
    expected = f"Expected every shard of the state in {tmp_path}, found "
    assert refused(state.shard_files, tmp_path, code=INPUT_UNUSABLE) == expected + "0"
    names = [f"state-0000{rank}-of-00002.safetensors" for rank in range(2)]
    save_file({"x": torch.zeros(1)}, tmp_path / names[1])
    assert refused(state.shard_files, tmp_path, code=INPUT_UNUSABLE) == expected + "1"
    save_file({"x": torch.zeros(1)}, tmp_path / names[0])
    assert state.shard_files(tmp_path) == [tmp_path / name for name in names]
    save_file({"x": torch.zeros(1)}, tmp_path / "state.safetensors")
    assert state.shard_files(tmp_path) == [tmp_path / "state.safetensors"]


def test_stored_state_that_cannot_be_read_is_an_unusable_input(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    read = state.read_trainer_state
    assert refused(read, tmp_path, code=INPUT_UNUSABLE).startswith(f"Cannot read {path}: [Errno 2]")
    path.write_text("{")
    assert refused(read, tmp_path, code=INPUT_UNUSABLE).startswith(f"Cannot read {path}: Expecting property name")
    for text in ("[]", '{"schema": "longhaul.trainer-state/2"}'):
        path.write_text(text)
        expected = f"Expected schema longhaul.trainer-state/1 in {path}"
        assert refused(read, tmp_path, code=INPUT_UNUSABLE) == expected
    save_file({"weight.other": torch.zeros(1)}, tmp_path / "state.safetensors")
    message = refused(state.load_weights, tmp_path, model=small_model(), code=INPUT_UNUSABLE)
    odd = ["0.bias", "0.weight", "1.bias"]
    assert message == f"Cannot load {tmp_path}: Expected the weights of tiny, found a difference at {odd}"


# How an attempt ends.


def spec_at(root: Path) -> Any:
    execution = SimpleNamespace(ranks=2)
    return SimpleNamespace(job_dir=root, fence=5, execution=execution, input_paths=[root / "input"])


class Unique(Exception):
    pass


def named_error(name: str, text: str = "") -> Exception:
    return type(name, (RuntimeError,), {})(text)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "full"), 73),
        (OSError(errno.EIO, "broken"), 74),
        (Unique("?"), 70),
        (RuntimeError("can't allocate memory: 5 bytes"), 78),
        (Unique("can't allocate memory"), 70),
        (RuntimeError("something else"), 70),
        (MemoryError(), 78),
        (named_error("OutOfMemoryError"), 78),
        (named_error("DistNetworkError"), 69),
        (named_error("RedistError"), 70),
        (RuntimeError("[/gloo/transport/tcp] Connection closed"), 69),
    ],
)
def test_every_failure_has_its_code(tmp_path: Path, error: Exception, code: int) -> None:
    assert command._code_of(error, spec_at(tmp_path)) == code
    # An attempt superseded by a newer one is fenced, whatever its error.
    (tmp_path / "leases").mkdir()
    (tmp_path / "leases" / "6.json").write_text("{}")
    assert command._code_of(error, spec_at(tmp_path)) == 76


def attempt(monkeypatch: pytest.MonkeyPatch, root: Path, error: Exception | None) -> tuple[int, str, dict[str, Any]]:
    def run(*_: Any) -> dict[str, Any]:
        if error is not None:
            raise error
        return {"fact": 1}

    monkeypatch.setattr(command, "_run", run)
    monkeypatch.setattr(command, "find_silent", lambda path, *, world: {1: f"at {path.relative_to(root)} of {world}"})
    return command._attempt(spec_at(root), None, None, False, "")  # type: ignore[arg-type]


def test_an_attempt_that_lost_ranks_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    who = "gone or standing still: rank 1 (last seen at attempts/5/ranks of 2)."
    assert attempt(monkeypatch, tmp_path, None) == (0, "", {"fact": 1})
    assert attempt(monkeypatch, tmp_path, LostRanks("Cannot join")) == (69, f"{who} Cannot join", {})
    found = attempt(monkeypatch, tmp_path, RuntimeError("/gloo/ closed"))
    assert found == (69, f"{who} RuntimeError: /gloo/ closed", {})
    assert attempt(monkeypatch, tmp_path, JobError(65, "no")) == (65, "no", {})
    assert attempt(monkeypatch, tmp_path, Unique("odd")) == (70, "Unique: odd", {})


def stub_attempt(monkeypatch: pytest.MonkeyPatch, code: int, message: str = "why", **facts: Any) -> None:
    monkeypatch.setattr(command, "_attempt", lambda *_: (code, message, facts))
    monkeypatch.setattr(command, "die_with_launcher", lambda: None)
    monkeypatch.setattr(StopFlag, "install", lambda self: None)


def write_spec(root: Path) -> tuple[Path, Path]:
    """Paths of a spec whose job is below `root`, and of its exit.json."""
    spec = full_spec()
    spec["work"] = {"job_dir": str(root / "job"), "scratch_dir": str(root / "scratch")}
    path = root / "spec.json"
    path.write_text(json.dumps(spec))
    return path, root / "job" / "attempts" / "12" / "exit.json"


def test_first_rank_reports_its_end_in_a_file_and_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, report = write_spec(tmp_path)
    stub_attempt(monkeypatch, 65)
    monkeypatch.delenv("RANK", raising=False)
    assert command.step(path, dry_run=False) == 65
    assert capsys.readouterr().err == "batch-refused: why\n"
    found = json.loads(report.read_text())
    assert (found["code"], found["class"], found["message"]) == (65, "batch-refused", "why")
    assert "rank" not in found
    # Without a spec there is no directory for a report.
    assert command.step(tmp_path / "none.json", dry_run=False) == 64
    assert capsys.readouterr().err == (
        f"invalid-spec: Cannot read spec {tmp_path / 'none.json'}: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("rank", "code", "reported", "exit_code", "kept"),
    [
        # Another rank: no report on success; a report if it failed first; otherwise only its own exit code.
        ("1", 0, None, 0, None),
        ("1", 65, None, 65, 65),
        ("1", 65, 78, 65, 78),
        # The first rank: another rank's report of this attempt outranks the loss of a peer, but no other failure.
        ("0", 69, 78, 78, 78),
        ("0", 70, 78, 78, 78),
        ("0", 74, 78, 78, 78),
        ("0", 75, 78, 78, 78),
        ("0", 65, 78, 65, 65),
    ],
)
def test_the_first_rank_to_fail_reports_the_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rank: str,
    code: int,
    reported: int | None,
    exit_code: int,
    kept: int | None,
) -> None:
    path, report = write_spec(tmp_path)
    stub_attempt(monkeypatch, code, outcome="done")
    real = command._attempt

    def fail_after_another(*arguments: Any) -> Any:
        # The heartbeat thread creates this directory.
        report.parent.mkdir(parents=True, exist_ok=True)
        if reported is not None:
            report.write_text(json.dumps({"code": reported, "launch": launch_id()}))
        return real(*arguments)

    monkeypatch.setattr(command, "_attempt", fail_after_another)
    monkeypatch.setenv("RANK", rank)
    assert command.step(path, dry_run=False) == exit_code
    found = json.loads(report.read_text()) if report.exists() else None
    assert (found and found["code"]) == kept
    if found is not None and "class" in found:
        assert found.get("rank") == (int(rank) or None)


@pytest.mark.parametrize("rank", ["0", "1"])
@pytest.mark.parametrize("variable", ["SLURM_RESTART_COUNT", "TORCHELASTIC_RUN_ID", "MASTER_PORT"])
def test_a_report_of_an_earlier_launch_of_the_attempt_is_not_taken_for_another_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str, variable: str
) -> None:
    """A site requeues a batch job: the same fence again, on other nodes, and a file server whose clock is ahead."""
    path, report = write_spec(tmp_path)
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv(variable, "1")
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"code": 75, "launch": launch_id()}))
    os.utime(report, (4e9, 4e9))
    monkeypatch.setenv(variable, "2")
    stub_attempt(monkeypatch, 69)
    assert command.step(path, dry_run=False) == 69
    found = json.loads(report.read_text())
    assert (found["code"], found.get("rank", 0)) == (69, int(rank))


def test_an_attempt_that_begins_removes_the_report_of_its_earlier_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is killed, nothing would tell its end from that of the earlier launch."""
    path, report = write_spec(tmp_path)
    spec = json.loads(path.read_text())
    spec["execution"] |= {"nodes": 1, "ranks_per_node": 1, "cp": 1}
    path.write_text(json.dumps(spec))
    monkeypatch.delenv("RANK", raising=False)
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"code": 75, "launch": "earlier"}))
    monkeypatch.setattr(command, "die_with_launcher", lambda: None)
    monkeypatch.setattr(StopFlag, "install", lambda self: None)
    seen: list[bool] = []
    monkeypatch.setattr(command, "hit", lambda place: seen.append(report.exists()))
    command.step(path, dry_run=False)
    assert seen[-1] is False


@pytest.mark.parametrize("text", ["", "{", "[]", '{"code": 75}'])
def test_a_report_that_names_no_launch_is_nobodys(tmp_path: Path, text: str) -> None:
    (tmp_path / "exit.json").write_text(text)
    assert command._report_of(tmp_path, "") is None
    assert command._report_of(tmp_path / "none", "") is None


def test_a_report_of_another_rank_counts_whatever_its_clock_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, report = write_spec(tmp_path)
    stub_attempt(monkeypatch, 69)
    real = command._attempt
    monkeypatch.setenv("RANK", "0")
    theirs = {"code": 78, "launch": launch_id()}

    def fail_after_another(*arguments: Any) -> Any:
        report.write_text(json.dumps(theirs))
        os.utime(report, (time.time() - 3600, time.time() - 3600))
        return real(*arguments)

    monkeypatch.setattr(command, "_attempt", fail_after_another)
    assert command.step(path, dry_run=False) == 78
    assert json.loads(report.read_text()) == theirs


def test_one_of_several_ranks_reports_its_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, report = write_spec(tmp_path)
    stub_attempt(monkeypatch, 0, outcome="done")
    beats: list[Any] = []

    class Beat:
        def __init__(self, directory: Path, rank: int, where: Any) -> None:
            beats.append((directory, rank, where()))

        def close(self) -> None:
            beats.append("closed")

    installed: list[object] = []
    monkeypatch.setattr(StopFlag, "install", lambda self: installed.append(self))
    monkeypatch.setattr(command, "Beat", Beat)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert command.step(path, dry_run=False) == 0
    assert beats == [(report.parent / "ranks", 1, "in phase start"), "closed"]
    # With several ranks the handler is installed after the rendezvous.
    assert installed == []
    # A dry run needs no other ranks.
    assert command.step(path, dry_run=True) == 0
    assert len(beats) == 2
    assert json.loads(report.read_text())["outcome"] == "done"
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert command.step(path, dry_run=False) == 0
    assert (len(beats), len(installed)) == (2, 1)


def test_an_unwritable_report_folder_is_exit_status_73(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, report = write_spec(tmp_path)
    (tmp_path / "job").write_text("a file where the folder should be")
    stub_attempt(monkeypatch, 0, outcome="done")
    monkeypatch.delenv("RANK", raising=False)
    assert command.step(path, dry_run=False) == 73
    assert capsys.readouterr().err.startswith(f"Cannot write to {report.parent}: [Errno 20]")
    (tmp_path / "job").unlink()

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(command, "write_durably", refuse)
    # Success without a written report becomes 73; a failure keeps its code.
    for code, expected in ((0, 73), (65, 65)):
        stub_attempt(monkeypatch, code, outcome="done")
        assert command.step(path, dry_run=False) == expected
        assert "Cannot write exit.json: [Errno 28] No space left" in capsys.readouterr().err


def test_a_config_other_than_the_announced_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"

    def spec(sha256: str, stage: str = "rft") -> Any:
        return SimpleNamespace(config=SimpleNamespace(path=path, sha256=sha256), stage=stage)

    assert refused(command._read_config, spec("0")) == f"Cannot read config {path}: No such file or directory"
    data = json.dumps(make_config("rft")).encode()
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    assert refused(command._read_config, spec("0")) == f"Expected config to hash to 0, found {digest}"
    assert refused(command._read_config, spec(digest, "dapo")) == "Expected config.stage dapo as in the spec, got rft"
    assert command._read_config(spec(digest)) == parse_config(data)


def test_dry_run_reports_the_work_of_the_job(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = make_draft(policy, stage="rft", groups=2, size=4, batch_size=4)
    offsets, mask = draft.tensors["row_offsets"], draft.tensors["loss_mask"]
    lengths = [int(b - a) for a, b in pairwise(offsets)]
    config = make_config("rft", epochs=3, batch_size=4)
    job = make_job(tmp_path, policy, draft, config, execution={"max_tokens_per_micro": 1000, "ac": "full"})
    monkeypatch.setenv(VARIABLE, "KILL@loaded")
    assert command.step(job.write(), dry_run=True) == 0
    report = job.exit_report()
    parts = [
        {
            "rows": 4,
            "loss_tokens": int(mask[offsets[first] : offsets[first + 4]].sum()),
            "micros": 1,
            "fill": round(sum(lengths[first : first + 4]) / 1000, 3),
        }
        for first in (0, 4)
    ]
    plan = {name: report[name] for name in ("opt_steps", "tokens", "minibatches", "memory")}
    assert (plan["opt_steps"], plan["tokens"], plan["minibatches"]) == (6, sum(lengths), parts)
    largest = max(sum(lengths[:4]), sum(lengths[4:]))
    assert plan["memory"]["tokens_in_flight"] == largest
    assert report["outcome"] == "dry-run"
    assert json.loads(capsys.readouterr().out) == plan
    assert not (job.job_dir / "leases").exists()
    # One row per micro-batch: each exceeds the limit, so the longest row is the base of the fill.
    job.spec["execution"]["max_tokens_per_micro"] = 1
    assert command.step(job.write(fence=2), dry_run=True) == 0
    report = job.exit_report(2)
    assert [part["micros"] for part in report["minibatches"]] == [4, 4]
    fills = [round(sum(part) / (4 * max(part)), 3) for part in (lengths[:4], lengths[4:])]
    assert [part["fill"] for part in report["minibatches"]] == fills
    assert report["memory"]["tokens_in_flight"] == max(lengths)


def test_memory_of_a_dry_run_follows_layout_and_config(tmp_path: Path, policy: Path) -> None:
    """Each switch changes the prediction, which proves that the planner gets it."""
    draft = make_draft(policy, stage="rft", groups=2, size=4, batch_size=8)

    def memory(number: int, config: dict[str, Any] | None = None, **execution: Any) -> dict[str, Any]:
        made = make_config("rft", **(config or {}))
        job = make_job(tmp_path / str(number), policy, draft, made, execution={"ac": "full", **execution})
        assert command.step(job.write(), dry_run=True) == 0
        return job.exit_report()["memory"]

    plain = memory(0)
    assert memory(1) == plain
    changes: list[tuple[dict[str, Any] | None, dict[str, Any]]] = [
        (None, {"ranks_per_node": 2}),
        (None, {"ranks_per_node": 2, "cp": 2}),
        (None, {"ac": "none"}),
        (None, {"offload": "activations"}),
        (None, {"device": "cuda"}),
        ({"lora": {"rank": 2}}, {}),
        ({"optimizer": {**make_config("rft")["optimizer"], "states": "bfloat16"}}, {}),
    ]
    seen = [json.dumps(plain)]
    for number, (config, execution) in enumerate(changes, start=2):
        seen.append(json.dumps(memory(number, config, **execution)))
    assert len(set(seen)) == len(seen)
