"""`adapter`: PEFT with the exported adapter on the base computes what the published policy computes; anything else is refused."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from job_files import JobFiles, make_config, make_draft, make_job
from transformers import AutoModelForCausalLM

from longhaul_trainer.export.adapter import AdapterBase, adapter
from longhaul_trainer.step.command import step

IDS = torch.randint(0, 250, (2, 40), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> JobFiles:
    config = make_config("rft", epochs=1, lora={"rank": 4, "alpha": 32.0}, export={"dtype": "float32"})
    config["optimizer"]["lr"] = 1e-2
    job = make_job(tmp_path_factory.mktemp("adapted"), policy, make_draft(policy, stage="rft"), config)
    assert step(job.write(), dry_run=False) == 0
    return job


def run(checkpoint: Path, base: Path, target: Path) -> int:
    return adapter(checkpoint=checkpoint, base=AdapterBase(base, "team/base", "a" * 40), target=target)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=IDS).logits


def test_peft_on_the_base_computes_the_same_as_the_policy(tmp_path: Path, adapted: JobFiles, policy: Path) -> None:
    # `test/support/runner/trainer-test-packages.ts` installs peft separately: the trainer itself does not need it.
    if folder := os.environ.get("LONGHAUL_PEFT_PACKAGE"):
        sys.path.append(folder)
    else:
        pytest.skip("LONGHAUL_PEFT_PACKAGE names no folder with the package peft")
    from peft import PeftModel  # pyright: ignore[reportMissingImports]

    assert run(adapted.checkpoint, policy, tmp_path / "adapter") == 0
    base: Any = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32)
    before = logits(base)
    loaded = PeftModel.from_pretrained(base, tmp_path / "adapter")
    published = logits(AutoModelForCausalLM.from_pretrained(adapted.policy, dtype=torch.float32))
    # fp32 throughout: merged weights and adapters at run time differ by rounding only; training moved logits by far more.
    assert (published - before).abs().max() > 0.1
    for model in (loaded, loaded.merge_and_unload()):
        torch.testing.assert_close(logits(model), published, atol=1e-4, rtol=1e-4)


def test_layout_names_the_base_and_every_target(tmp_path: Path, adapted: JobFiles, policy: Path) -> None:
    from safetensors.torch import load_file

    target = tmp_path / "adapter"
    assert run(adapted.checkpoint, policy, target) == 0
    assert sorted(path.name for path in target.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    config = json.loads((target / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["r"], config["lora_alpha"]) == ("team/base", 4, 32.0)
    tensors = load_file(target / "adapter_model.safetensors")
    # A and B of seven matrices in two layers.
    assert len(tensors) == 28
    assert tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"].shape[0] == 4
    assert not any(str(tmp_path) in path.read_text(errors="ignore") for path in target.iterdir())


def test_an_adapter_export_without_adapters_or_on_another_base_is_refused(
    tmp_path: Path, adapted: JobFiles, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "never"
    assert run(adapted.checkpoint, adapted.policy, target) == 66
    assert "adapters of an earlier job were merged into it and not kept" in capsys.readouterr().err
    assert run(adapted.policy, policy, target) == 66
    assert "Expected a checkpoint" in capsys.readouterr().err
    assert not target.exists()
