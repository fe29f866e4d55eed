"""Layouts too large for the test machine: the trainer's own step on tensors without data, against the planner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Command
from job_files import TRAINER
from shipped_recipes import MODELS, layout_of

from longhaul_trainer.head import VOCABULARY
from longhaul_trainer.plan.shapes import PUBLISHED
from longhaul_trainer.simulate import run

Simulate = Callable[..., dict[str, Any]]


@pytest.fixture
def simulated(forked_command: Command) -> Simulate:
    def simulate(*options: str) -> dict[str, Any]:
        done = forked_command("simulate", *options)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return simulate


@pytest.fixture
def short_vocabulary(tmp_path: Path) -> Callable[[str], str]:
    """A directory with the shape of a published model whose vocabulary is one chunk of the head.

    Chunks of the head take most of a simulation's time, and add nothing where a test is about the layers.
    """

    def write(model: str) -> str:
        shape = PUBLISHED[model]
        config = {
            "model_type": shape.family,
            "hidden_size": shape.hidden,
            "num_hidden_layers": shape.layers,
            "intermediate_size": shape.intermediate,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "vocab_size": VOCABULARY,
            "tie_word_embeddings": shape.is_tied,
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        return str(tmp_path)

    return write


def test_the_command_reports_the_same_in_its_own_process(simulated: Simulate) -> None:
    options = ("--model", "qwen3-0.6b", "--layers", "1", "--context", "1024")
    command = [sys.executable, "-m", "longhaul_trainer", "simulate", *options]
    environment = {**os.environ, "PYTHONPATH": str(TRAINER), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {**found, "seconds": 0} == {**simulated(*options), "seconds": 0}


def test_sixteen_ranks_gather_scatter_and_hold_as_much_as_planned(simulated: Simulate) -> None:
    # Two layers of Qwen2.5-7B; four ranks share a row of 16,384 tokens.
    options = ("--model", "qwen2.5-7b", "--layers", "2", "--context", "16384", "--nodes", "2", "--ranks-per-node", "8")
    found = simulated(*options, "--cp", "4")
    assert abs(found["predicted_share"] - 1) < 0.10
    # Gathers in bf16: embedding, two layers, root and head once each, and the layers again for the backward pass. The root's own
    # parameter (a norm) stays gathered.
    parameters, counts = found["parameters"], found["collectives"]
    table, layer, norm = 152064 * 3584, 233_057_792, 3584
    assert parameters == 2 * table + 2 * layer + norm
    assert counts["all_gather"]["bytes"] >= 2 * (2 * table + 4 * layer + norm)
    assert counts["reduce_scatter"]["count"] == 5
    assert 4 * parameters <= counts["reduce_scatter"]["bytes"] < 4.01 * parameters
    # Queries, keys, values and outputs are exchanged in each layer: in the forward pass, its recomputation, and the backward pass.
    assert counts["all_to_all"]["count"] == 4 * 2 * 3
    # fp32 weights and two moments over all ranks, padded to equal parts.
    assert 12 * parameters <= found["checkpoint_bytes"] < 12.01 * parameters


def test_kept_attention_uses_as_much_as_the_planner_adds(
    simulated: Simulate, short_vocabulary: Callable[[str], str]
) -> None:
    options = ("--model", short_vocabulary("qwen3-0.6b"), "--layers", "8", "--context", "32768")
    plain, kept = simulated(*options), simulated(*options, "--ac", "save_attention")
    assert abs(kept["predicted_share"] - 1) < 0.10
    # Eight layers keep 16 heads of 128 in bf16. The gradients that exist at the peak may differ. The context is long, because at a short
    # one the peak is the optimizer's, without activations.
    assert 0.7 < (kept["peak_bytes"] - plain["peak_bytes"]) / (8 * 2 * 16 * 128 * 32768) < 1.5


def test_inputs_offloaded_to_the_host_are_counted_there(
    simulated: Simulate, short_vocabulary: Callable[[str], str]
) -> None:
    options = ("--model", short_vocabulary("qwen3-0.6b"), "--layers", "4", "--context", "8192")
    here, there = simulated(*options), simulated(*options, "--offload", "activations")
    boundary = 2 * 1024 * 8192
    assert here["host_bytes"] == 0
    assert there["host_bytes"] >= there["predicted_host_bytes"] == 4 * boundary
    assert there["peak_bytes"] <= here["peak_bytes"]


def test_inputs_copied_during_the_layers_use_as_much_as_planned(
    simulated: Simulate, short_vocabulary: Callable[[str], str]
) -> None:
    options = (
        "--model",
        short_vocabulary("qwen3-0.6b"),
        "--layers",
        "2",
        "--context",
        "4096",
        "--offload",
        "activations",
    )
    serial, overlapped = simulated(*options), simulated(*options, "--overlapped")
    assert overlapped["host_bytes"] == serial["host_bytes"] == 2 * 2 * 1024 * 4096
    assert abs(overlapped["predicted_share"] - 1) < 0.10
    # At most one more input is in flight.
    assert overlapped["peak_bytes"] - serial["peak_bytes"] <= 2 * 1024 * 4096


@pytest.mark.parametrize("ranks", ["1", "4"])
def test_frozen_weights_need_no_gradient_memory_and_adapters_little(simulated: Simulate, ranks: str) -> None:
    options = ("--model", "qwen3-4b", "--layers", "2", "--lora-rank", "16", "--context", "8192")
    assert abs(simulated(*options, "--ranks-per-node", ranks)["predicted_share"] - 1) < 0.10


@pytest.mark.parametrize("ranks", ["1", "4"])
def test_a_long_context_under_frozen_weights_uses_as_much_as_planned(
    simulated: Simulate, short_vocabulary: Callable[[str], str], ranks: str
) -> None:
    options = ("--model", short_vocabulary("qwen3-4b"), "--layers", "2", "--lora-rank", "16", "--context", "32768")
    assert abs(simulated(*options, "--ranks-per-node", ranks)["predicted_share"] - 1) < 0.10


@pytest.mark.slow
@pytest.mark.parametrize("recipe", MODELS)
def test_the_planner_is_within_a_tenth_of_the_simulated_peak_of_every_shipped_recipe(recipe: str) -> None:
    """Two layers, in a later micro-batch: gradients of the earlier one exist beside the layer inputs."""
    found = run(model=MODELS[recipe], layout=layout_of(recipe), layers=2, accumulates=True)
    assert abs(found["predicted_share"] - 1) < 0.10
