"""Options that change how a step is computed (recomputation, offload) or what is trained (adapters, rope, moments)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradient_case import Case, run_case, worst_error, write_case
from job_files import make_config, make_draft, make_job, score_rows
from rank_processes import run_ranks
from safetensors.torch import load_file
from tiny_policy import write_tiny_policy
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

from longhaul_trainer import recompute
from longhaul_trainer.lean_adamw import LeanAdamW, round_by_chance
from longhaul_trainer.lora import Lora
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.rope import Yarn
from longhaul_trainer.step.command import step


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> Case:
    case = Case(tmp_path_factory.mktemp("case"), policy)
    write_case(case)
    return case


@pytest.mark.parametrize(
    ("mode", "offload", "attentions", "moves"),
    # Two layers, one micro-batch of eight rows: 16 attention calls forward; recomputing them doubles that.
    [("none", False, 16, 0), ("full", False, 32, 0), ("save_attention", False, 16, 0), ("full", True, 32, 2)],
)
def test_recomputation_changes_the_kernel_calls_and_not_the_gradient(
    case: Case, monkeypatch: pytest.MonkeyPatch, mode: str, offload: bool, attentions: int, moves: int
) -> None:
    plain, _ = run_case(case)
    counted = Counter()
    moved = []
    real = recompute.save_on_cpu

    def count_moves(**named: Any) -> Any:
        moved.append(named)
        return real(**named)

    monkeypatch.setattr(recompute, "save_on_cpu", count_moves)
    with counted:
        found, _ = run_case(replace(case, making={"ac": mode, "offload": "serial" if offload else "none"}))
    assert counted.calls == attentions
    assert len(moved) == moves
    assert worst_error(found, plain) < 1e-7


class Counter(TorchDispatchMode):
    """Counts executions of the attention kernel, below autograd and checkpointing."""

    calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in recompute._kept():
            self.calls += 1
        return func(*args, **(kwargs or {}))


def adapters_on(ranks: Ranks, case: Case) -> dict[str, torch.Tensor]:
    return run_case(case, ranks)[0]


def test_only_adapters_get_gradients_and_equal_ones_on_two_ranks(case: Case) -> None:
    adapted = replace(case, making={"lora": Lora(rank=2, alpha=4.0), "seed": 3})
    alone, _ = run_case(adapted)
    assert len(alone) == 2 * 7 * 2
    assert {name.rsplit(".", 1)[1] for name in alone} == {"lora_a", "lora_b"}
    # B starts at zero, so only B gets a gradient yet.
    assert all((float(value.norm()) > 0) == name.endswith("lora_b") for name, value in alone.items())
    for found in run_ranks(adapters_on, adapted, world=2):
        assert worst_error(found, alone) < 1e-6


def metrics(job: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job.checkpoint / "metrics.jsonl").read_text().splitlines()]


def test_adapter_job_trains_exports_merged_weights_and_goes_on(tmp_path: Path, policy: Path) -> None:
    config = make_config("rft", lora={"rank": 4})
    config["optimizer"]["lr"] = 1e-2
    job = make_job(tmp_path / "first", policy, make_draft(policy, stage="rft"), config)
    assert step(job.write(), dry_run=False) == 0
    first, _, again, _ = metrics(job)
    assert again["loss"] < first["loss"]
    base, merged = (load_file(path / "model.safetensors") for path in (policy, job.policy))
    assert base.keys() == merged.keys()
    name = "model.layers.0.mlp.up_proj.weight"
    change = merged[name] - base[name]
    assert torch.linalg.matrix_rank(change, rtol=1e-4) == 4
    assert torch.equal(base["model.norm.weight"], merged["model.norm.weight"])
    # The canary was computed by the adapted model before the merge was written: a plain load must agree.
    canary = load_file(job.policy / "canary.safetensors")
    row, index = int(canary["position_row"][0]), int(canary["position_index"][0])
    ids = canary["input_ids"][canary["row_offsets"][row] : canary["row_offsets"][row + 1]].tolist()
    assert score_rows(job.policy, [ids])[0][index] == pytest.approx(float(canary["new_logprobs"][0]), abs=1e-5)
    following = make_job(
        tmp_path / "second",
        job.checkpoint,
        make_draft(job.policy, stage="rft", seed=1),
        make_config("rft", lora={"rank": 4}, optimizer_init="carry"),
        kind="checkpoint",
        global_step=4,
    )
    assert step(following.write(), dry_run=False) == 0


@pytest.mark.parametrize("lora", [{"rank": 4, "alpha": 64.0}, {"rank": 8}, None])
@pytest.mark.parametrize("init", ["carry", "fresh"])
def test_adapters_scaled_otherwise_than_in_the_input_are_refused(
    tmp_path: Path, policy: Path, lora: dict[str, Any] | None, init: str
) -> None:
    """Another alpha makes another model of the same tensors: one that no server sampled from."""
    first = make_job(
        tmp_path / "1", policy, make_draft(policy, stage="rft"), make_config("rft", epochs=1, lora={"rank": 4})
    )
    assert step(first.write(), dry_run=False) == 0
    config = make_config("rft", optimizer_init=init, **({} if lora is None else {"lora": lora}))
    draft = make_draft(policy, stage="rft", seed=1)
    job = make_job(tmp_path / "2", first.checkpoint, draft, config, kind="checkpoint", global_step=2)
    assert step(job.write(), dry_run=True) == 64
    assert job.exit_report()["message"].startswith(
        "Expected config.lora to be that of the input ({'alpha': 8.0, 'rank': 4}), got "
    )


def test_moments_of_all_weights_are_not_carried_into_adapters(tmp_path: Path, policy: Path) -> None:
    first = make_job(tmp_path / "1", policy, make_draft(policy, stage="rft"), make_config("rft", epochs=1))
    assert step(first.write(), dry_run=False) == 0
    for init, code in (("carry", 64), ("fresh", 0)):
        config = make_config("rft", optimizer_init=init, lora={"rank": 4}, epochs=1)
        draft = make_draft(policy, stage="rft", seed=1)
        job = make_job(tmp_path / init, first.checkpoint, draft, config, kind="checkpoint", global_step=2)
        assert step(job.write(), dry_run=False) == code


def test_yarn_is_exported_in_both_forms_that_load_to_the_same_model(tmp_path: Path) -> None:
    rope = {"type": "yarn", "factor": 4.0, "original_max": 512}
    policy = tmp_path / "base"
    write_tiny_policy(policy, rope=Yarn(factor=4.0, original_max=512))
    job = make_job(tmp_path / "job", policy, make_draft(policy, stage="rft"), make_config("rft", rope=rope, epochs=1))
    assert step(job.write(), dry_run=False) == 0
    exported = json.loads((job.policy / "config.json").read_text())
    assert exported["max_position_embeddings"] == 2048
    ids = torch.randint(0, 250, (1, 700), generator=torch.Generator().manual_seed(0))
    scores = []
    for absent in ((), ("rope_parameters",), ("rope_scaling", "rope_theta")):
        config = {name: value for name, value in exported.items() if name not in absent}
        path = tmp_path / "-".join(("form", *absent))
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        (path / "model.safetensors").symlink_to(job.policy / "model.safetensors")
        model = AutoModelForCausalLM.from_pretrained(path, config=AutoConfig.from_pretrained(path), dtype=torch.float32)
        with torch.no_grad():
            scores.append(model(input_ids=ids).logits)
    assert torch.equal(scores[0], scores[1])
    assert torch.equal(scores[0], scores[2])
    # The same weights without YaRN give other logits, already at the first positions.
    plain = tmp_path / "plain"
    plain.mkdir()
    plain_rope = {"rope_type": "default", "rope_theta": exported["rope_theta"]}
    without = {name: value for name, value in exported.items() if name != "rope_scaling"}
    (plain / "config.json").write_text(json.dumps({**without, "rope_parameters": plain_rope}))
    (plain / "model.safetensors").symlink_to(job.policy / "model.safetensors")
    model = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32)
    with torch.no_grad():
        assert float((model(input_ids=ids).logits - scores[0])[0, :20].abs().max()) > 1e-3
    # The next job accepts the rope that the policy states.
    again = make_job(
        tmp_path / "again", job.policy, make_draft(job.policy, stage="rft"), make_config("rft", rope=rope, epochs=1)
    )
    again.spec["run"]["global_step"] = 2
    assert step(again.write(), dry_run=False) == 0
    assert json.loads((again.policy / "config.json").read_text()) == exported


@pytest.mark.parametrize("stated", [None, Yarn(factor=2.0, original_max=512)])
def test_a_rope_that_is_missing_in_the_input_is_refused(tmp_path: Path, stated: Yarn | None) -> None:
    """The trainer would otherwise train another model than the one that a server of the directory samples from."""
    policy = tmp_path / "base"
    write_tiny_policy(policy, rope=stated)
    rope = {"type": "yarn", "factor": 4.0, "original_max": 512}
    job = make_job(tmp_path / "job", policy, make_draft(policy, stage="rft"), make_config("rft", rope=rope, epochs=1))
    assert step(job.write(), dry_run=False) == 64
    message = job.exit_report()["message"]
    assert "yarn × 4 from 512" in message
    assert f"states {stated or 'none'}" in message


def lean(parameter: torch.nn.Parameter, states: torch.dtype) -> LeanAdamW:
    group = {"params": [parameter], "weight_decay": 0.1}
    return LeanAdamW([group], lr=1e-2, betas=(0.9, 0.999), eps=1e-8, states=states, host=True, seed=1)


def test_lean_states_in_fp32_equal_torchs_own_adamw() -> None:
    dice = torch.Generator().manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.linspace(-1, 1, 40)) for _ in range(2))
    group = {"params": [theirs], "weight_decay": 0.1}
    optimizers = (
        lean(ours, torch.float32),
        torch.optim.AdamW([group], lr=1e-2, betas=(0.9, 0.999), eps=1e-8),
    )
    for _ in range(20):
        gradient = torch.randn(40, generator=dice)
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-6)


def test_bf16_states_follow_a_small_second_moment_that_nearest_rounding_would_freeze() -> None:
    """The gradient drops from 1 to 0, so v = 0.999^t. One step is a quarter of bf16's spacing."""
    parameter = torch.nn.Parameter(torch.zeros(4000))
    optimizer = lean(parameter, torch.bfloat16)
    optimizer.state[parameter] = {
        "step": torch.tensor(1.0),
        "exp_avg": torch.zeros(4000, dtype=torch.bfloat16),
        "exp_avg_sq": torch.ones(4000, dtype=torch.bfloat16),
    }
    for _ in range(100):
        parameter.grad = torch.zeros(4000)
        optimizer.step()
    square = optimizer.state[parameter]["exp_avg_sq"]
    assert square.dtype == torch.bfloat16
    assert float(square.double().mean()) == pytest.approx(0.999**100, rel=2e-3)
    frozen = torch.ones(1)
    for _ in range(100):
        frozen = (frozen * 0.999).bfloat16().float()
    assert float(frozen) == 1.0


def test_stochastic_rounding_keeps_the_mean_and_exact_values() -> None:
    dice = torch.Generator().manual_seed(0)
    value = 1.0 + 2**-10
    found = round_by_chance(torch.full((50_000,), value), dice).double()
    assert set(found.tolist()) == {1.0, 1.0 + 2**-7}
    assert float(found.mean()) == pytest.approx(value, abs=1e-4)
    exact = torch.tensor([0.0, -1.5, 2.0**-100])
    assert torch.equal(round_by_chance(exact, dice).float(), exact)


def test_job_with_bf16_states_resumes_to_the_same_bytes(tmp_path: Path, policy: Path) -> None:
    config = make_config("rft")
    config["optimizer"]["states"] = "bfloat16"
    whole = make_job(tmp_path / "whole", policy, make_draft(policy, stage="rft"), config)
    assert step(whole.write(), dry_run=False) == 0
    stored = load_file(whole.checkpoint / "state.safetensors")
    assert {stored[name].dtype for name in stored if name.startswith("exp_avg")} == {torch.bfloat16}
    from longhaul_trainer.step import job as job_module

    cut = make_job(tmp_path / "cut", policy, make_draft(policy, stage="rft"), config)
    with pytest.MonkeyPatch.context() as monkeypatch:
        real = job_module.Job._save_inner

        def save_and_die(self: Any, *arguments: Any) -> None:
            real(self, *arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(job_module.Job, "_save_inner", save_and_die)
        with pytest.raises(KeyboardInterrupt):
            step(cut.write(), dry_run=False)
    assert step(cut.write(fence=2), dry_run=False) == 0
    for name in ("state.safetensors", "metrics.jsonl"):
        assert (cut.checkpoint / name).read_bytes() == (whole.checkpoint / name).read_bytes()


def test_float16_export_has_the_dtype_of_the_config(tmp_path: Path, policy: Path) -> None:
    config = make_config("rft", export={"dtype": "float16"}, epochs=1)
    job = make_job(tmp_path, policy, make_draft(policy, stage="rft"), config)
    assert step(job.write(), dry_run=False) == 0
    assert json.loads((job.policy / "config.json").read_text())["dtype"] == "float16"
    stored = load_file(job.policy / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    assert np.isfinite(stored["model.norm.weight"].float().numpy()).all()
