"""`agree`: layouts of one model agree, other weights do not; other rows and missing files are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from job_files import TRAINER
from safetensors.torch import load_file, save_file

from longhaul_trainer.bench_agreement import AgreeOptions, agree, write_model
from longhaul_trainer.failures import JobError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    shape = {"model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 500}
    (tmp_path / "config.json").write_text(json.dumps({**shape, "tie_word_embeddings": True}))
    assert write_model(shape=str(tmp_path), layers=None, context=64, directory=tmp_path / "model", seed=0) == 0
    return tmp_path / "model"


def run(model: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> dict[str, Any]:
    options = {
        "context": 32,
        "rows": 3,
        "device": "cpu",
        "compute": "float32",
        "attention": "auto",
        "ac": "none",
        "offload_activations": "none",
    }
    rest = {"cp": 1, "alone": False, "store": None, "against": None}
    capsys.readouterr()
    assert agree(AgreeOptions(model=model, **{**options, **rest, **changes})) == 0
    return json.loads(capsys.readouterr().out)


def test_single_rows_and_recomputation_agree_and_bf16_differs_by_rounding(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scores"
    first = run(model, capsys, store=file)
    # Rows of 32, 16 and 8 tokens; the first token of each is not a label.
    assert (first["labels"], first["difference"]) == (53, None)
    for changes in ({"alone": True}, {"ac": "full"}, {"ac": "save_attention"}):
        found = run(model, capsys, against=file, **changes)["difference"]
        assert found["compared"] == 53
        assert found["max"] < 1e-5
        assert found["gradient"] < 1e-5
        assert found["spread"] > 0.01
    rounded = run(model, capsys, against=file, compute="bfloat16")["difference"]
    assert 1e-5 < rounded["p99"] < 0.05


def test_other_weights_do_not_agree(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(model, capsys, store=tmp_path / "scores")
    weights = load_file(model / "model.safetensors")
    name = next(name for name in weights if "q_proj" in name)
    weights[name] = torch.zeros_like(weights[name])
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    found = run(model, capsys, against=tmp_path / "scores")["difference"]
    assert found["max"] > 1e-4
    assert found["gradient"] > 1e-4


def test_inputs_that_cannot_be_compared_are_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(JobError, match="--against to be a file"):
        run(model, capsys, against=tmp_path / "absent")
    run(model, capsys, store=tmp_path / "scores")
    with pytest.raises(JobError, match="to hold 24 tokens, it holds 56"):
        run(model, capsys, against=tmp_path / "scores", context=16, rows=2)


def test_two_context_parallel_ranks_agree_with_one(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(model, capsys, store=tmp_path / "scores")
    # The teardown of a rank's interpreter races with gloo's threads and, under load, aborted a rank that had done its work.
    watch = tmp_path / "watch"
    watch.mkdir()
    torn_down = tmp_path / "torn-down"
    noting = f"lambda: open({str(torn_down)!r}, 'a').close()"
    (watch / "sitecustomize.py").write_text(f"import atexit, os\nif 'RANK' in os.environ: atexit.register({noting})\n")
    launch = ("longhaul_trainer.parallel.launch", "--nproc-per-node=2", "--log-dir=/dev/null")
    flags = ("--device", "cpu", "--context", "32", "--cp", "2", "--model", str(model))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            *launch,
            "-m",
            "longhaul_trainer",
            "agree",
            *flags,
            "--against",
            str(tmp_path / "scores"),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(watch), str(TRAINER))), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not torn_down.exists()
    report = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert report["ranks"] == 2
    assert report["difference"]["max"] < 1e-5
    assert report["difference"]["gradient"] < 1e-5
