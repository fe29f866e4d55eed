"""The planner against published figures and figures worked out by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Command
from job_files import TRAINER, make_config, make_draft, make_job
from transformers import AutoModelForCausalLM

from longhaul_trainer.bench import BenchOptions, bench
from longhaul_trainer.failures import JobError
from longhaul_trainer.plan.command import plan
from longhaul_trainer.plan.memory import GIB, Layout, predict
from longhaul_trainer.plan.shapes import PUBLISHED, read_shape
from longhaul_trainer.step.command import step
from longhaul_trainer.trainable import FAMILIES

K64, K128 = 65_536, 131_072


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("qwen2.5-7b", 7.62e9),
        ("qwen2.5-32b", 32.8e9),
        ("qwen2.5-72b", 72.7e9),
        ("qwen3-0.6b", 0.6e9),
        ("qwen3-4b", 4.02e9),
    ],
)
def test_shapes_have_their_published_size(model: str, parameters: float) -> None:
    assert PUBLISHED[model].parameters == pytest.approx(parameters, rel=0.01)


@pytest.mark.parametrize("name", ["policy", "untied"])
def test_parameter_counts_equal_those_of_the_model(name: str, tmp_path: Path, policy: Path) -> None:
    directory = policy
    if name == "untied":
        from tiny_policy import write_tiny_policy

        directory = tmp_path / "untied"
        write_tiny_policy(directory, family="qwen2", kv_heads=1)
    model = AutoModelForCausalLM.from_pretrained(directory)
    assert read_shape(directory / "config.json").parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("model", "layout", "gib"),
    [
        # prime-rl, benchmarks/results/BENCHMARKS.md
        ("qwen3-4b", Layout(tokens=K64, ranks=8), 36.1),
        ("qwen3-0.6b", Layout(tokens=K64), 19.6),
        ("qwen3-4b", Layout(tokens=K64, lora_rank=16), 42.0),
    ],
)
def test_prediction_is_within_15_percent_of_published_peaks(model: str, layout: Layout, gib: float) -> None:
    assert predict(PUBLISHED[model], layout).peak / GIB == pytest.approx(gib, rel=0.15)


@pytest.mark.parametrize(
    ("model", "layout", "gib"),
    [
        ("qwen2.5-7b", Layout(tokens=K64, ranks=8), 53),
        ("qwen2.5-7b", Layout(tokens=K64, states="bfloat16"), 124),
        ("qwen2.5-72b", Layout(tokens=K64, ranks=128, cp=8), 35),
        ("qwen2.5-72b", Layout(tokens=K128, ranks=128, cp=8), 50),
        ("qwen2.5-72b", Layout(tokens=K128, ranks=16, cp=8), 109),
        ("qwen2.5-32b", Layout(tokens=K128, ranks=8, cp=8), 87),
    ],
)
def test_prediction_equals_the_table_computed_by_hand(model: str, layout: Layout, gib: float) -> None:
    assert predict(PUBLISHED[model], layout).peak / GIB == pytest.approx(gib, abs=1.6)


def test_every_option_changes_its_own_term() -> None:
    shape, base = PUBLISHED["qwen3-4b"], Layout(tokens=K64)
    peak = predict(shape, base).peak
    boundary = 2 * shape.hidden * K64
    expected = {
        # 32 heads of 128 are wider than the hidden size of 2,560.
        "save_attention": (Layout(tokens=K64, ac="save_attention"), shape.layers * 2 * 32 * 128 * K64),
        "hosted inputs beside it": (
            Layout(tokens=K64, ac="save_attention", offload="activations"),
            shape.layers * 2 * 32 * 128 * K64 + (2 - shape.layers) * boundary,
        ),
        "bf16 moments": (Layout(tokens=K64, states="bfloat16"), -4 * shape.parameters),
        "hosted moments": (Layout(tokens=K64, offload="optimizer"), -8 * shape.parameters),
        "hosted inputs": (Layout(tokens=K64, offload="activations"), (2 - shape.layers) * boundary),
    }
    for name, (layout, change) in expected.items():
        assert predict(shape, layout).peak - peak == pytest.approx(change), name
    assert predict(shape, Layout(tokens=K64, offload="both")).waiting == 8 * shape.parameters + shape.layers * boundary
    assert predict(shape, Layout(tokens=K64, ranks=16, cp=4)).tokens_in_flight == 4 * K64


def test_the_copy_for_a_checkpoint_counts_as_host_memory() -> None:
    shape = PUBLISHED["qwen3-4b"]
    # fp32 weights and both moments of one rank; with adapters, all frozen weights as well.
    for layout, expected in (
        (Layout(tokens=8, ranks=4), 12 * shape.parameters / 4),
        (Layout(tokens=8, states="bfloat16"), 8 * shape.parameters),
        (Layout(tokens=8, lora_rank=16), 4 * shape.parameters + 12 * shape.adapter_parameters(16)),
    ):
        memory = predict(shape, layout)
        assert memory.waiting == 0
        assert memory.host == memory.copied == pytest.approx(expected)
    hosted = predict(shape, Layout(tokens=8, offload="optimizer"))
    assert hosted.host == pytest.approx((8 + 12) * shape.parameters)


def test_an_update_counts_when_it_needs_more_memory_than_the_passes() -> None:
    shape = PUBLISHED["qwen2.5-7b"]
    largest = 152064 * 3584
    # Stochastic rounding and moments on the host: six fp32 numbers per element, for one parameter at a time.
    for layout, states in ((Layout(tokens=8, states="bfloat16"), 12), (Layout(tokens=8, offload="optimizer"), 8)):
        assert predict(shape, layout).peak == pytest.approx(states * shape.parameters + 24 * largest + 4 * GIB)
    assert predict(shape, Layout(tokens=8, ranks=4, states="bfloat16")).peak == pytest.approx(
        3 * shape.parameters + 8 * shape.vocab * shape.hidden + 4 * 1024 * 8192 * 4 + 4 * GIB, rel=0.01
    )
    # The fused update works in place, so the head's term is larger.
    names = [term.name for term in predict(shape, Layout(tokens=8)).terms]
    assert "head at work" in names
    assert predict(shape, Layout(tokens=8, lora_rank=16, states="bfloat16")).terms[2].name == "head at work"


@pytest.mark.parametrize(
    ("recipe", "model", "gib"), [("qwen3-4b-one-gpu", "qwen3-4b", 79.6), ("qwen2.5-7b-one-gpu", "qwen2.5-7b", 139)]
)
def test_recipe_for_one_gpu_fits_including_the_planners_error(recipe: str, model: str, gib: float) -> None:
    """The driver leaves 79.6 GiB of an 80 GB card, 139 of an H200."""
    told = yaml.safe_load((TRAINER.parent / "recipes" / f"{recipe}.yaml").read_text())
    trainer, stages = told["trainer"], [told["rft"], told["reinforce"]]
    longest = max([told["rft"]["context"], *(stage["context"] for stage in told["reinforce"]["stages"])])
    for stage in stages:
        layout = Layout(
            tokens=max(longest, trainer["maxTokensPerMicro"]),
            ac=trainer["recompute"],
            offload=trainer.get("offload", "none"),
            states=stage["optim"].get("states", "float32"),
        )
        assert predict(PUBLISHED[model], layout).peak * 1.15 <= gib * GIB


@pytest.mark.parametrize(
    ("model", "balance"), [("qwen2.5-72b", 109_000), ("qwen2.5-32b", 97_000), ("qwen3-0.6b", 10_400)]
)
def test_the_balance_is_the_row_length_with_equal_cost_of_attention_and_linear_layers(
    model: str, balance: float
) -> None:
    """By hand for 0.6B: (28 layers · 15.73M + head 155.6M) / (28·16·128) = 10,400."""
    assert PUBLISHED[model].balance == pytest.approx(balance, rel=0.01)


def test_plan_says_whether_it_fits_and_shows_its_sums(capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(tokens=K128, ranks=128, cp=8)
    assert plan(model="Qwen2.5-72B-Instruct", layout=layout, memory_gib=139, as_json=False) == 0
    text = capsys.readouterr().out
    assert "16 data parallel × 8 context parallel" in text
    assert "16·72,706,203,648 / 128" in text
    assert "fits into 139 GiB" in text
    assert plan(model="qwen2.5-72b", layout=Layout(tokens=K64, ranks=8, cp=8), memory_gib=139, as_json=True) == 78
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is False
    assert found["peak_bytes"] == pytest.approx(sum(term["bytes"] for term in found["terms"]), abs=5)


@pytest.mark.parametrize(
    ("model", "layout"), [("qwen2.5-7b", Layout(tokens=8, ranks=8, cp=8)), ("unknown-1b", Layout(tokens=8))]
)
def test_impossible_layout_is_refused(model: str, layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(model=model, layout=layout, memory_gib=139, as_json=False) == 64
    assert "Expected" in capsys.readouterr().err


def test_dry_run_reports_packing_and_memory_without_weights(tmp_path: Path, policy: Path) -> None:
    draft = make_draft(policy, stage="dapo")
    job = make_job(tmp_path, policy, draft, make_config("dapo"), execution={"ranks_per_node": 2, "cp": 2})
    assert step(job.write(), dry_run=True) == 0
    report = job.exit_report()
    assert report["opt_steps"] == 4
    assert all(0.5 < part["fill"] <= 1 for part in report["minibatches"])
    assert report["memory"]["peak_bytes"] > 4 * GIB
    wrong = make_job(tmp_path / "x", policy, draft, make_config("dapo"), execution={"ranks_per_node": 3, "cp": 3})
    assert step(wrong.write(), dry_run=True) == 64


def bench_flags(directory: Path, *flags: str) -> tuple[str, ...]:
    return ("bench", "--model", str(directory), "--steps", "1", *flags)


def run_bench(directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs the bench in its own process, which has no earlier peak."""
    command = [sys.executable, "-m", "longhaul_trainer", *bench_flags(directory, *flags)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=TRAINER, env=environment, capture_output=True, text=True, timeout=1200)


def test_bench_without_a_gpu_says_so(policy: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    found = run_bench(policy, "--context", "16")
    assert found.returncode == 69
    assert "Expected a CUDA device" in found.stderr


def test_bench_measures_each_phase_and_removes_its_state(tmp_path: Path, policy: Path, forked_command: Command) -> None:
    flags = ("--device", "cpu", "--context", "64", "--ac", "none", "--state-in", str(tmp_path))
    found = forked_command(*bench_flags(policy, *flags))
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert all(seconds > 0 for seconds in report["seconds"].values())
    assert set(report["state"]["seconds"]) == {"copy", "write", "verify", "read"}
    # fp32 weights and two moments, and a few kilobytes of random state and names.
    assert 0 < report["state"]["bytes"] - 12 * report["parameters"] < 20_000
    # Weights and moments, and the gradients of a step.
    assert report["peak_bytes"] > 16 * report["parameters"]
    assert report["predicted_bytes"] - report["predicted_without_reserve_bytes"] == 4 * GIB
    assert os.listdir(tmp_path) == []


def short_bench(model: Path, **changes: Any) -> BenchOptions:
    return BenchOptions(
        **{
            "model": str(model),
            "context": 16,
            "rows": 1,
            "steps": 1,
            "device": "cpu",
            "head": "chunked",
            "ac": "none",
            "offload_activations": "none",
            "prox": "separate",
            "lora_rank": None,
            "layers": None,
            "attention": "auto",
            "compile": "none",
            "optimizer": "fused",
            "state_in": None,
            **changes,
        }
    )


def test_bench_without_the_directory_for_states_says_so(tmp_path: Path, policy: Path) -> None:
    with pytest.raises(JobError, match="--state-in"):
        bench(short_bench(policy, state_in=str(tmp_path / "absent")))


def test_bench_accepts_every_trainable_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 64, "vocab_size": 100, "head_dim": 16}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False}
    for family in FAMILIES:
        # Qwen2's config has no head_dim.
        told = {**shape, "model_type": family} | ({"head_dim": 8} if family == "qwen2" else {})
        (tmp_path / "config.json").write_text(json.dumps(told))
        assert bench(short_bench(tmp_path)) == 0
        assert json.loads(capsys.readouterr().out)["parameters"] == read_shape(tmp_path / "config.json").parameters
    (tmp_path / "config.json").write_text(json.dumps({**shape, "model_type": "gemma"}))
    with pytest.raises(JobError, match=r"Expected a model of llama, qwen2, qwen3, .* is one of gemma") as caught:
        bench(short_bench(tmp_path))
    assert caught.value.code == 64


@pytest.mark.parametrize(
    "switches",
    [
        ("--head", "plain"),
        ("--compile", "eager", "--ac", "save_attention", "--optimizer", "foreach", "--attention", "varlen"),
        ("--offload-activations", "overlapped"),
    ],
)
def test_bench_runs_with_its_options(policy: Path, switches: tuple[str, ...], forked_command: Command) -> None:
    found = forked_command(*bench_flags(policy, "--device", "cpu", "--context", "32", *switches))
    assert found.returncode == 0, found.stderr[-2000:]
    report = json.loads(found.stdout)
    assert all(seconds > 0 for seconds in report["seconds"].values())
    assert report[switches[0].removeprefix("--").replace("-", "_")] == switches[1]
    assert report["tokens_per_s_with_prox"] < report["tokens_per_s"]


def test_bench_without_a_pass_for_prox_reports_none(policy: Path, forked_command: Command) -> None:
    found = forked_command(*bench_flags(policy, "--device", "cpu", "--context", "32", "--prox", "first"))
    assert found.returncode == 0, found.stderr[-2000:]
    report = json.loads(found.stdout)
    assert report["seconds"]["prox"] == 0
    assert report["tokens_per_s_with_prox"] == report["tokens_per_s"]


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"offload_activations": "overlapped"}, 64, "Expected --ac with --offload-activations"),
        (
            {"attention": "fa3"},
            69,
            r"Expected a GPU of compute capability 9\.x \(Hopper\) for attention fa3, found: a CPU",
        ),
    ],
)
def test_bench_refuses_an_option_without_an_effect(
    policy: Path, changes: dict[str, str], code: int, message: str
) -> None:
    with pytest.raises(JobError, match=message) as caught:
        bench(short_bench(policy, **changes))
    assert caught.value.code == code


@pytest.mark.slow
def test_chunked_head_peaks_below_the_plain_one_and_grows_linearly_with_tokens(tmp_path: Path) -> None:
    """A vocabulary of 32,768 × 8,192 tokens gives 1 GiB of logits per copy; a chunk of the head is 32 MiB."""
    config = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 1, "intermediate_size": 128}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 32_768}
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    peak = {}
    for head, rows in (("chunked", 4), ("chunked", 16), ("plain", 16)):
        found = run_bench(
            tmp_path, "--device", "cpu", "--context", "512", "--rows", str(rows), "--head", head, "--ac", "none"
        )
        assert found.returncode == 0, found.stderr
        report = json.loads(found.stdout)
        assert report["tokens_per_s"] > 0
        assert set(report["seconds"]) == {"prox", "forward", "backward", "optimizer"}
        peak[head, rows] = report["peak_bytes"]
    assert peak["plain", 16] - peak["chunked", 16] > 1 << 30
    # Four times the tokens increase the activations, not the logits (1 GiB per copy).
    assert peak["chunked", 16] - peak["chunked", 4] < 1 << 29
