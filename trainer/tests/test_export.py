"""`export`: the exported directory equals the policy; an incomplete source leaves no output."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from job_files import JobFiles, make_config, make_draft, make_job
from safetensors.torch import load_file
from tiny_policy import write_tiny_policy
from transformers import AutoModelForCausalLM, AutoTokenizer

from longhaul_trainer import weight_files
from longhaul_trainer.directory import open_sealed, seal, sha256_file
from longhaul_trainer.export.command import export
from longhaul_trainer.rope import Yarn
from longhaul_trainer.step.command import step

PLAIN = {"config.json", "longhaul.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> JobFiles:
    job = make_job(
        tmp_path_factory.mktemp("job"), policy, make_draft(policy, stage="rft"), make_config("rft", epochs=1)
    )
    assert step(job.write(), dry_run=False) == 0
    return job


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> JobFiles:
    """A job with adapters, YaRN and rounding: every difference between a checkpoint's tensors and a plain model."""
    policy = tmp_path_factory.mktemp("policies") / "stretched"
    write_tiny_policy(policy, rope=Yarn(factor=4.0, original_max=512))
    config = make_config(
        "rft",
        epochs=1,
        lora={"rank": 4, "alpha": 32.0},
        rope={"type": "yarn", "factor": 4.0, "original_max": 512},
        export={"dtype": "bfloat16"},
    )
    config["optimizer"]["lr"] = 1e-2
    job = make_job(tmp_path_factory.mktemp("adapted"), policy, make_draft(policy, stage="rft"), config)
    assert step(job.write(), dry_run=False) == 0
    return job


def run_export(source: Path, target: Path, dtype: str | None = None, expected_sha256: str | None = None) -> int:
    return export(source=source, target=target, dtype=dtype, expected_sha256=expected_sha256)


def load(directory: Path) -> Any:
    """Loads like a user of transformers. A missing or unexpected weight fails the test."""
    loaded: Any = AutoModelForCausalLM.from_pretrained(directory, dtype="auto", output_loading_info=True)
    model, info = loaded
    assert not any(info.values()), info
    return model.eval()


def logits(directory: Path) -> torch.Tensor:
    ids = torch.randint(0, 250, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return load(directory)(input_ids=ids).logits


def loaded_by_engines(directory: Path) -> set[str]:
    """Files that vLLM and SGLang load: every *.safetensors, or only the indexed ones if there is an index."""
    found = {path.name for path in directory.glob("*.safetensors")}
    index = directory / "model.safetensors.index.json"
    return found & set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else found


def test_exported_policy_is_a_plain_directory_with_its_logits(
    tmp_path: Path, finished: JobFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "plain"
    assert run_export(finished.policy, target, expected_sha256=open_sealed(finished.policy).sha256) == 0
    assert {path.name for path in target.iterdir()} == PLAIN
    assert torch.equal(logits(target), logits(finished.policy))
    tokenizer = AutoTokenizer.from_pretrained(target)
    assert tokenizer("a b")["input_ids"] == AutoTokenizer.from_pretrained(finished.policy)("a b")["input_ids"]
    record = json.loads(capsys.readouterr().out)
    assert record["source"]["policy_version"] == finished.spec["output"]["policy_version"]
    assert record["source"]["manifest_sha256"] == open_sealed(finished.policy).sha256
    assert record["files"] == {name: sha256_file(target / name) for name in PLAIN - {"longhaul.json"}}
    assert {**json.loads((target / "longhaul.json").read_text()), "directory": str(target)} == record


def test_engines_that_load_every_safetensors_file_do_not_load_the_canary(finished: JobFiles) -> None:
    assert (finished.policy / "canary.safetensors").is_file()
    assert loaded_by_engines(finished.policy) == {"model.safetensors"}


def test_exported_checkpoint_is_the_policy_that_was_published_from_it(tmp_path: Path, finished: JobFiles) -> None:
    target = tmp_path / "plain"
    assert run_export(finished.checkpoint, target, dtype="float32") == 0
    assert {path.name for path in target.iterdir()} == PLAIN
    ours, theirs = (load_file(made / "model.safetensors") for made in (target, finished.policy))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for name in ("config.json", "model.safetensors.index.json"):
        assert (target / name).read_bytes() == (finished.policy / name).read_bytes()


def test_adapters_are_merged_and_the_rope_is_written_like_the_policys(tmp_path: Path, adapted: JobFiles) -> None:
    target = tmp_path / "plain"
    assert run_export(adapted.checkpoint, target) == 0
    assert json.loads((target / "longhaul.json").read_text())["merged_adapters"] is True
    assert torch.equal(logits(target), logits(adapted.policy))
    assert (target / "config.json").read_bytes() == (adapted.policy / "config.json").read_bytes()
    assert json.loads((target / "config.json").read_text())["rope_scaling"]["factor"] == 4.0
    assert not torch.equal(logits(target), logits(Path(adapted.spec["input"]["uri"].removeprefix("file://"))))


def test_large_model_is_split_into_shards_that_load_to_the_same_weights(
    tmp_path: Path, finished: JobFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "SHARD_BYTES", 200_000)
    target = tmp_path / "plain"
    assert run_export(finished.checkpoint, target, dtype="float32") == 0
    names = loaded_by_engines(target)
    assert len(names) == len(list(target.glob("*.safetensors"))) > 1
    assert torch.equal(logits(target), logits(finished.policy))
    # A policy of several files keeps them.
    for path in target.glob("longhaul.json"):
        path.unlink()
    seal(target, kind="policy", facts={})
    assert run_export(target, tmp_path / "again") == 0
    assert loaded_by_engines(tmp_path / "again") == names


def test_sampling_defaults_of_a_base_policy_are_not_exported(tmp_path: Path, policy: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(policy, base)
    (base / "generation_config.json").write_text(json.dumps({"eos_token_id": 258, "top_k": 20, "temperature": 0.6}))
    sha256 = seal(base, kind="policy", facts={})
    assert run_export(base, tmp_path / "plain") == 0
    assert json.loads((tmp_path / "plain/generation_config.json").read_text()) == {"eos_token_id": 258}
    record = json.loads((tmp_path / "plain/longhaul.json").read_text())
    assert record["source"]["policy_version"] == f"v000000-{sha256[:8]}"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def reseal(directory: Path, **changes: Any) -> None:
    manifest = json.loads((directory / "MANIFEST.json").read_text())
    facts = {name: value for name, value in manifest.items() if name not in ("schema", "kind", "files")}
    seal(directory, **{"kind": manifest["kind"], "facts": facts, **changes})


def drop(directory: Path, name: str) -> None:
    (directory / name).unlink()
    reseal(directory)


def rename_weight(directory: Path) -> None:
    (directory / "model.safetensors.index.json").unlink()
    data = (directory / "model.safetensors").read_bytes()
    (directory / "model.safetensors").write_bytes(data.replace(b"model.norm.weight", b"model.norm.weighs"))
    reseal(directory)


HARMS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "flipped byte": ("policy", lambda at: flip(at / "model.safetensors"), "to hash to"),
    "lost file": ("policy", lambda at: (at / "tokenizer.json").unlink(), "bytes, found None"),
    "no marker": ("policy", lambda at: (at / "COMMITTED").unlink(), "never committed"),
    "no manifest": ("policy", lambda at: (at / "MANIFEST.json").unlink(), "Expected MANIFEST.json"),
    "another kind": ("policy", lambda at: reseal(at, kind="prox"), "its manifest says prox"),
    "no tokenizer": ("policy", lambda at: drop(at, "tokenizer.json"), "Expected tokenizer.json"),
    "no weights": ("policy", lambda at: drop(at, "model.safetensors"), "model.safetensors"),
    "a strange weight": ("policy", rename_weight, "a difference is model.norm.weig"),
    "lost shard": ("checkpoint", lambda at: drop(at, "state.safetensors"), "Expected every shard"),
    "adapters of unknown scale": ("checkpoint", lambda at: reseal(at, facts={}), "export its policy"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_torn_or_foreign_directory_is_refused_with_one_sentence(
    tmp_path: Path, finished: JobFiles, adapted: JobFiles, capsys: pytest.CaptureFixture[str], harm: str
) -> None:
    kind, hurt, says = HARMS[harm]
    job = adapted if harm.startswith("adapters") else finished
    source = tmp_path / "source"
    shutil.copytree(getattr(job, kind), source)
    hurt(source)
    assert run_export(source, tmp_path / "plain") == 66
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1
    assert os.listdir(tmp_path) == ["source"]


def test_wrong_hash_existing_target_and_second_rounding_are_refused(
    tmp_path: Path, finished: JobFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "plain"
    assert run_export(finished.policy, target, expected_sha256="0" * 64) == 66
    assert run_export(finished.policy, target, dtype="float16") == 64
    assert "export its checkpoint" in capsys.readouterr().err
    target.mkdir()
    (target / "mine").touch()
    assert run_export(finished.policy, target) == 73
    assert os.listdir(target) == ["mine"]
    assert os.listdir(tmp_path) == ["plain"]


def test_files_of_a_killed_export_are_removed_and_those_of_a_running_one_stay(
    tmp_path: Path, finished: JobFiles
) -> None:
    left = tmp_path / ".plain.export"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    holder = os.open(left, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    assert run_export(finished.policy, tmp_path / "plain") == 73
    assert (left / "model.safetensors").read_bytes() == b"half"
    os.close(holder)
    assert run_export(finished.policy, tmp_path / "plain") == 0
    assert os.listdir(tmp_path) == ["plain"]


def test_export_that_cannot_write_leaves_nothing(tmp_path: Path, finished: JobFiles) -> None:
    """The process may write at most 64 KiB per file, less than the weights need."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        codes = [run_export(made, tmp_path / "plain") for made in (finished.policy, finished.checkpoint)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert codes == [74, 74]
    assert os.listdir(tmp_path) == []
