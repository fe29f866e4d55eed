"""An invalid batch is refused with 65 and a message that names the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from job_files import Draft, make_config, make_draft, make_job

from longhaul_trainer.step.command import step

Edit = Callable[[Draft], None]


def put(name: str, at: int, value: float) -> Edit:
    def edit(draft: Draft) -> None:
        draft.tensors[name][at] = value

    return edit


def put_where(name: str, mask: int, value: float) -> Edit:
    """Writes `value` at the first token with loss mask `mask` after the file's first token."""

    def edit(draft: Draft) -> None:
        at = int(np.flatnonzero(draft.tensors["loss_mask"][1:] == mask)[0]) + 1
        draft.tensors[name][at] = value

    return edit


def put_json(*path: str | int, value: object) -> Edit:
    def edit(draft: Draft) -> None:
        at: Any = draft.manifest
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = value

    return edit


def drop_tensor(draft: Draft) -> None:
    del draft.tensors["policy_version"]


def swap_tensors(draft: Draft) -> None:
    names = list(draft.tensors)
    names[1], names[2] = names[2], names[1]
    draft.tensors = {name: draft.tensors[name] for name in names}


def retype(draft: Draft) -> None:
    draft.tensors["input_ids"] = draft.tensors["input_ids"].astype(np.int64)


def duplicate_name(draft: Draft) -> None:
    # Same length, so that only the name differs.
    draft.edit_bytes = lambda data: data.replace(b'"policy_version"', b'"advantages"    ', 1)


def cut_tail(draft: Draft) -> None:
    draft.edit_bytes = lambda data: data[:-1]


def add_tail(draft: Draft) -> None:
    draft.edit_bytes = lambda data: data + b"\0"


def clear_row(draft: Draft) -> None:
    offsets = draft.tensors["row_offsets"]
    draft.tensors["loss_mask"][offsets[2] : offsets[3]] = 0


def split_trajectory(draft: Draft) -> None:
    owner = draft.tensors["row_trajectory"]
    owner[-1] = owner[0]


def drop_group(draft: Draft) -> None:
    draft.manifest["groups"][0]["dropped"] = "outcome"


def lag(draft: Draft) -> None:
    draft.manifest["policies"] = [{"version": "v000009-00000000", "manifest_sha256": "0" * 64}]


CASES: list[tuple[str, Edit, str]] = [
    ("id too large", put("input_ids", 5, 10_000), "row 0, token 5 (index 5)"),
    ("negative id", put("input_ids", 5, -1), "found -1 at row 0, token 5"),
    ("mask 2", put("loss_mask", 3, 2), "loss mask of 0 or 1"),
    ("mask on first token", put("loss_mask", 0, 1), "first token of a row"),
    ("NaN logprob", put_where("behaviour_logprobs", 1, float("nan")), "finite logprob"),
    ("positive logprob", put_where("behaviour_logprobs", 1, 0.5), "found 0.5"),
    ("logprob off the sample", put_where("behaviour_logprobs", 0, -1.0), "not sampled"),
    ("loss without sample", put_where("policy_version", 1, -1), "sampled token"),
    ("unknown policy index", put_where("policy_version", 1, 7), "policy index"),
    ("edited advantage", put_where("advantages", 1, 9.0), "from the group's rewards"),
    ("advantage off the loss", put_where("advantages", 0, 1.0), "without loss"),
    ("offsets", put("row_offsets", 1, 0), "increase strictly"),
    ("missing tensor", drop_tensor, "Expected the tensors of stage dapo"),
    ("order of tensors", swap_tensors, "in the order"),
    ("type of a tensor", retype, "input_ids"),
    ("duplicate name", duplicate_name, "found twice"),
    ("truncated file", cut_tail, "bytes, found"),
    ("trailing byte", add_tail, "bytes, found"),
    ("row without loss", clear_row, "loss token in every row"),
    ("split trajectory", split_trajectory, "adjacent"),
    ("dropped group", drop_group, "dropped group g0"),
    ("stale policy", lag, "v000009"),
    ("temperature", put_json("sampling", "temperature", value=0), "temperature"),
    ("top_k", put_json("sampling", "top_k", value=20), "top_k"),
    ("top_p", put_json("sampling", "top_p", value=0.9), "top_p"),
    ("tokenizer", put_json("tokenizer_sha256", value="0" * 64), "tokenizer_sha256"),
    ("vocabulary", put_json("vocab_size", value=5), "vocab_size"),
    ("stage", put_json("stage", value="rft"), "stage"),
    ("iteration", put_json("iteration", value=3), "iteration"),
    ("count of tokens", put_json("counts", "loss_tokens", value=1), "counts.loss_tokens"),
    ("count of rows", put_json("counts", "rows", value=3), "row_offsets"),
    ("row limit", put_json("max_row_tokens", value=5), "at most 5 tokens"),
    ("mini-batch tokens", put_json("minibatches", 0, "loss_tokens", value=1), "mini-batch 0"),
    ("mini-batch rows", put_json("minibatches", 1, "first_row", value=0), "mini-batch 1"),
    ("trajectory tokens", put_json("trajectories", 0, "sampled_tokens", value=999), "sampled - masked"),
    ("trajectory rows", put_json("trajectories", 0, "rows", value=2), "2"),
    ("infra episode", put_json("trajectories", 0, "disposition", value="infra"), "infra"),
    ("reward", put_json("groups", 0, "rewards", 0, value=50.0), "group's rewards"),
    ("undivided by a delta", put_json("adv", value={"std": "none", "delta": 1e-6, "filter": "shaped"}), "Expected adv"),
    ("undivided", put_json("adv", value={"std": "none", "filter": "shaped"}), "from its group's rewards"),
    ("missing field", put_json("minibatches", value=None), "every field"),
]


@pytest.mark.parametrize(("edit", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_broken_batch_is_refused_with_its_position(tmp_path: Path, policy: Path, edit: Edit, message: str) -> None:
    draft = make_draft(policy, stage="dapo")
    edit(draft)
    job = make_job(tmp_path, policy, draft, make_config("dapo"))
    assert step(job.write(), dry_run=True) == 65
    assert message in job.exit_report()["message"]
    assert not job.checkpoint.exists()


def test_batch_edited_after_the_spec_was_written_is_refused(tmp_path: Path, policy: Path) -> None:
    job = make_job(tmp_path, policy, make_draft(policy, stage="dapo"), make_config("dapo"))
    path = tmp_path / "batch" / "batch.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert step(job.write(), dry_run=True) == 65
    assert "hash" in job.exit_report()["message"]


def test_advantages_without_the_deviation_pass_when_the_manifest_declares_them(tmp_path: Path, policy: Path) -> None:
    draft = make_draft(policy, stage="dapo")
    draft.manifest["adv"] = {"std": "none", "filter": "shaped"}
    rewards = {group["id"]: np.array(group["rewards"]) for group in draft.manifest["groups"]}
    for entry in draft.manifest["trajectories"]:
        group = rewards[entry["group"]]
        entry["advantage"] = float(group[entry["member"]] - group.mean())
    values = np.array([entry["advantage"] for entry in draft.manifest["trajectories"]])
    lengths = np.diff(draft.tensors["row_offsets"])
    owner = np.repeat(draft.tensors["row_trajectory"], lengths)
    mask = draft.tensors["loss_mask"] == 1
    draft.tensors["advantages"] = np.where(mask, values[owner], 0.0).astype(np.float32)
    job = make_job(tmp_path, policy, draft, make_config("dapo"))
    assert step(job.write(), dry_run=True) == 0


@pytest.mark.parametrize("stage", ["rft", "dapo"])
def test_good_batch_passes_the_dry_run(tmp_path: Path, policy: Path, stage: str) -> None:
    job = make_job(tmp_path, policy, make_draft(policy, stage=stage), make_config(stage))
    assert step(job.write(), dry_run=True) == 0
    assert job.exit_report()["opt_steps"] == 4
    assert not (job.job_dir / "leases").exists()
