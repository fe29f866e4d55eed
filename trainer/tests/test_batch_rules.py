"""Every rule of a batch at its bound, with the full message, on a batch small enough to count by hand (`small_batch.py`)."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from job_files import Draft, sha256
from small_batch import POLICY, A, C, load_small, make_small

from longhaul_trainer.batch.accounts import InputPolicy, Minibatch, expected_advantages, spread_over_tokens
from longhaul_trainer.failures import BATCH_REFUSED, JobError

Edit = Callable[[Draft], object]
NAN, INF = float("nan"), float("inf")


def refusal(root: Path, draft: Draft, **changes: Any) -> str:
    with pytest.raises(JobError) as caught:
        load_small(draft, root, **changes)
    assert caught.value.code == BATCH_REFUSED
    return caught.value.message


def put(name: str, at: int | slice, value: object) -> Edit:
    return lambda draft: draft.tensors[name].__setitem__(at, value)


def put_json(*path: str | int | slice, value: object) -> Edit:
    def edit(draft: Draft) -> None:
        at: Any = draft.manifest
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = value

    return edit


def drop_json(*path: str | int) -> Edit:
    def edit(draft: Draft) -> None:
        at: Any = draft.manifest
        for name in path[:-1]:
            at = at[name]
        del at[path[-1]]

    return edit


def both(*edits: Edit) -> Edit:
    def edit(draft: Draft) -> None:
        for one in edits:
            one(draft)

    return edit


def test_good_batch_is_read_as_it_was_written(tmp_path: Path) -> None:
    batch = load_small(make_small(), tmp_path)
    assert batch.offsets.tolist() == [0, 3, 5, 9, 12]
    assert batch.input_ids.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert batch.loss_mask.tolist() == [0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0]
    assert batch.behaviour_logprobs is not None
    assert batch.behaviour_logprobs.tolist() == [0, -0.5, -0.5, 0, -0.5, 0, 0, -0.5, -0.5, 0, -0.5, 0]
    assert batch.advantages is not None
    assert batch.advantages.tolist() == pytest.approx([0, -A, -A, 0, -A, 0, 0, A, A, 0, C, 0])
    assert batch.minibatches == [
        Minibatch(first_row=0, rows=3, loss_tokens=5, trajectories=2),
        Minibatch(first_row=3, rows=1, loss_tokens=1, trajectories=1),
    ]
    # Mapped read-only: a job never writes into its input.
    assert not batch.input_ids.flags.writeable
    assert (batch.temperature, batch.dropped_nonfinite) == (1.0, 1)
    assert (batch.tokens, batch.rows) == (12, 4)
    assert [batch.row_length(row) for row in range(4)] == [3, 2, 4, 3]


def test_a_batch_for_imitation_may_leave_out_what_it_does_not_use(tmp_path: Path) -> None:
    draft = make_small("rft")
    draft.manifest["policies"] = None
    del (
        draft.tensors["behaviour_logprobs"],
        draft.tensors["policy_version"],
        draft.manifest["counts"]["dropped_nonfinite"],
    )
    batch = load_small(draft, tmp_path, stage="rft", max_policy_lag=None)
    assert (batch.behaviour_logprobs, batch.advantages, batch.dropped_nonfinite) == (None, None, 0)
    # A lag limit without versions: nothing to check.
    assert load_small(draft, tmp_path, stage="rft").rows == 4
    # Versions without a lag limit: any policy may have sampled.
    draft = make_small("rft")
    draft.manifest["policies"] = [{"version": "v000001-00000000", "manifest_sha256": "0" * 64}]
    assert load_small(draft, tmp_path, stage="rft", max_policy_lag=None).rows == 4


def test_values_at_their_bounds_are_accepted(tmp_path: Path) -> None:
    draft = make_small()
    draft.tensors["behaviour_logprobs"][1] = 1e-3
    draft.manifest["sampling"] |= {"top_k": 0, "logprobs_mode": "raw_logprobs"}
    # Just within the relative tolerance of 1e-5, in the table and in the tensor.
    draft.manifest["trajectories"][0]["advantage"] = A * (1 + 0.9e-5)
    draft.tensors["advantages"][7:9] = A * (1 - 0.9e-5)
    assert load_small(draft, tmp_path).temperature == 1.0
    draft.manifest["sampling"] |= {"temperature": 0.5, "top_k": -1, "logprobs_mode": "processed_logprobs"}
    assert load_small(draft, tmp_path).temperature == 0.5


@pytest.mark.parametrize(
    ("batch_size", "cuts"),
    # Three trajectories: 3/2 rounds half up to 2, 3/3 and 3/7 to 1, 3/1 to 3.
    [(1, [(0, 2, 3), (2, 1, 2), (3, 1, 1)]), (2, [(0, 3, 5), (3, 1, 1)]), (3, [(0, 4, 6)]), (7, [(0, 4, 6)])],
)
def test_trajectories_are_cut_into_near_equal_parts(
    tmp_path: Path, batch_size: int, cuts: list[tuple[int, int, int]]
) -> None:
    draft = make_small()
    sizes = {2: 1, 3: 2, 4: 3, 1: 1}
    draft.manifest["minibatches"] = [
        {"first_row": first, "rows": rows, "trajectories": sizes[rows], "loss_tokens": tokens}
        for first, rows, tokens in cuts
    ]
    found = load_small(draft, tmp_path, batch_size=batch_size).minibatches
    assert [(part.first_row, part.rows, part.loss_tokens) for part in found] == cuts


CASES: list[tuple[Edit, str]] = [
    # Sampling.
    *(
        (put_json("sampling", "temperature", value=value), f"Expected sampling.temperature above 0, found {value!r}")
        for value in (None, 0, -1.0, "1", True, INF)
    ),
    (put_json("sampling", "top_p", value=0.9), "Expected sampling.top_p to be neutral (1), found 0.9"),
    (put_json("sampling", "top_k", value=1), "Expected sampling.top_k to be neutral (-1), found 1"),
    (put_json("sampling", "min_p", value=0.1), "Expected sampling.min_p to be neutral (0), found 0.1"),
    (drop_json("sampling", "repetition_penalty"), "Expected sampling.repetition_penalty to be neutral (1), found None"),
    (
        both(
            put_json("sampling", "logprobs_mode", value="raw_logprobs"), put_json("sampling", "temperature", value=0.7)
        ),
        "Expected sampling.logprobs_mode processed_logprobs, found 'raw_logprobs'",
    ),
    (
        put_json("sampling", "logprobs_mode", value="raw_logits"),
        "Expected sampling.logprobs_mode processed_logprobs, found 'raw_logits'",
    ),
    # Counts.
    (put_json("counts", "groups", value=3), "Expected counts.groups to be 2, found 3"),
    (put_json("counts", "trajectories", value=4), "Expected counts.trajectories to be 3, found 4"),
    (put_json("counts", "loss_tokens", value=7), "Expected counts.loss_tokens to be 6, found 7"),
    (
        put_json("counts", "dropped_nonfinite", value=2),
        "Expected counts.dropped_nonfinite to be among the masked tokens, found more",
    ),
    (put_json("counts", "rows", value=0), "Expected at least one row and one token, found 0 and 12"),
    (put_json("counts", "tokens", value=0), "Expected at least one row and one token, found 4 and 0"),
    # Mini-batches.
    (
        put_json("minibatches", slice(1, 2), value=[]),
        "Expected 2 mini-batches for 3 trajectories at 2, found 1",
    ),
    (
        put_json("minibatches", 1, "first_row", value=2),
        "Expected mini-batch 1 to begin at row 3 inside 4 rows, "
        "found {'first_row': 2, 'rows': 1, 'trajectories': 1, 'loss_tokens': 1}",
    ),
    (
        put_json("minibatches", 1, "rows", value=0),
        "Expected mini-batch 1 to begin at row 3 inside 4 rows, "
        "found {'first_row': 3, 'rows': 0, 'trajectories': 1, 'loss_tokens': 1}",
    ),
    (
        put_json("minibatches", 1, "rows", value=2),
        "Expected mini-batch 1 to begin at row 3 inside 4 rows, "
        "found {'first_row': 3, 'rows': 2, 'trajectories': 1, 'loss_tokens': 1}",
    ),
    (
        put_json("minibatches", 1, "trajectories", value=2),
        "Expected 1 trajectories in mini-batch 1, found 1, listed 2",
    ),
    (put_json("minibatches", 0, "rows", value=2), "Expected 2 trajectories in mini-batch 0, found 1, listed 2"),
    (put_json("minibatches", 0, "trajectories", value=1), "Expected 2 trajectories in mini-batch 0, found 2, listed 1"),
    (put_json("minibatches", 0, "loss_tokens", value=6), "Expected mini-batch 0 to list 5 loss tokens, found 6"),
    (put_json("minibatches", 1, "loss_tokens", value=2), "Expected mini-batch 1 to list 1 loss tokens, found 2"),
    # Trajectories.
    (
        put_json("trajectories", 1, "id", value="a"),
        "Expected trajectories sorted by id without repetition",
    ),
    (put_json("trajectories", 1, "id", value="d"), "Expected trajectories sorted by id without repetition"),
    *(
        (
            put_json("trajectories", 2, "disposition", value=value),
            f"Expected trajectory c to end by the policy's own doing, found {value!r}",
        )
        for value in ("infra", "cancelled", "stale")
    ),
    (put_json("trajectories", 1, "rows", value=1), "Expected trajectory b to list 2 rows, found 1"),
    (
        put_json("trajectories", 1, "sampled_tokens", value=4),
        "Expected 4 loss tokens (sampled - masked) in trajectory b, found 3 from row 0, token 0",
    ),
    (
        put_json("trajectories", 0, "masked_tokens", value=1),
        "Expected 1 loss tokens (sampled - masked) in trajectory a, found 2 from row 2, token 0",
    ),
    (
        both(
            put_json("trajectories", 2, "sampled_tokens", value=1),
            put_json("trajectories", 2, "masked_tokens", value=0),
        ),
        "Expected 1 sampled tokens in c, found 2",
    ),
    # Advantages against rewards.
    *(
        (
            put_json("adv", value=value),
            f"Expected adv to be {{std: 'n-1', delta, filter}} or {{std: 'none', filter}}, found {value!r}",
        )
        for value in (
            None,
            {"std": "n", "delta": 1e-3},
            {"std": "n-1", "delta": "1e-3"},
            {"delta": 1e-3},
            # Without division a delta would be ignored.
            {"std": "none", "delta": 1e-3},
            {"std": "n-1"},
        )
    ),
    (put_json("groups", 1, "id", value="g0"), "Expected each group id once"),
    (
        put_json("trajectories", 1, "group", value="g9"),
        "Expected the group 'g9' of trajectory b to be listed",
    ),
    (
        put_json("groups", 1, "dropped", value="std"),
        "Expected no rows of dropped group g1 (std), found trajectory c",
    ),
    *(
        (edit, "Expected finite rewards and outcomes of at least two siblings in group g0")
        for edit in (
            both(put_json("groups", 0, "rewards", value=[1.0]), put_json("groups", 0, "outcomes", value=[1])),
            put_json("groups", 0, "rewards", value=[1.0, NAN]),
            put_json("groups", 0, "outcomes", value=[1]),
        )
    ),
    (
        put_json("groups", 0, "rewards", value=["high", 0.0]),
        "Expected batch.json to have every field of longhaul.batch/1: ValueError could not convert string to float: 'high'",
    ),
    (put_json("trajectories", 1, "member", value=2), "Expected member of b in [0, 2), found 2"),
    (put_json("trajectories", 1, "member", value=-1), "Expected member of b in [0, 2), found -1"),
    (
        put_json("trajectories", 1, "member", value=0),
        "Expected each sibling once, found member 0 of group g0 again in b",
    ),
    (
        put_json("trajectories", 0, "advantage", value=A * (1 + 1.2e-5)),
        f"Expected advantage {A:.8g} of a from its group's rewards, found {A * (1 + 1.2e-5)!r}",
    ),
    (
        put_json("trajectories", 0, "advantage", value=None),
        f"Expected advantage {A:.8g} of a from its group's rewards, found None",
    ),
    (
        put_json("trajectories", 0, "advantage", value=NAN),
        f"Expected advantage {A:.8g} of a from its group's rewards, found nan",
    ),
    (
        both(put_json("trajectories", 2, "member", value=2), put_json("trajectories", 2, "advantage", value=0.0)),
        "Expected no rows of a zero-advantage trajectory, found c",
    ),
    # Tensors.
    (put("row_offsets", 0, 1), "Expected row_offsets from 0 to 12, found 1 to 12"),
    (put("row_offsets", 4, 11), "Expected row_offsets from 0 to 12, found 0 to 11"),
    (put("row_offsets", 1, 0), "Expected row_offsets to increase strictly, found 0 then 0 at row 0"),
    (put("row_offsets", 2, 2), "Expected row_offsets to increase strictly, found 3 then 2 at row 1"),
    (put_json("max_row_tokens", value=3), "Expected at most 3 tokens a row, found 4 at row 2, token 0"),
    (put("row_trajectory", 3, 3), "Expected row_trajectory in [0, 3), found 3 at row 3, token 0"),
    (put("row_trajectory", 1, -1), "Expected row_trajectory in [0, 3), found -1 at row 1, token 0"),
    (
        put("row_trajectory", 3, 1),
        "Expected the rows of one trajectory to be adjacent, found a trajectory in two places",
    ),
    (put("input_ids", 4, 10), "Expected a token id in [0, 10), found 10 at row 1, token 1 (index 4)"),
    (put("input_ids", 11, -1), "Expected a token id in [0, 10), found -1 at row 3, token 2 (index 11)"),
    (put("loss_mask", 5, 2), "Expected a loss mask of 0 or 1, found 2 at row 2, token 0 (index 5)"),
    (
        put("loss_mask", 9, 1),
        "Expected loss mask 0 at the first token of a row, found 1 at row 3, token 0 (index 9)",
    ),
    (put("loss_mask", 4, 0), "Expected a loss token in every row, found 0 at row 1, token 0 (index 3)"),
    (put("policy_version", 7, 1), "Expected a policy index in [-1, 1), found 1 at row 2, token 2 (index 7)"),
    (put("policy_version", 0, -2), "Expected a policy index in [-1, 1), found -2 at row 0, token 0 (index 0)"),
    (
        put("policy_version", 8, -1),
        "Expected a sampled token (policy_version ≥ 0) under loss mask 1, found -1 at row 2, token 3 (index 8)",
    ),
    (
        put("behaviour_logprobs", 2, np.float32(1.1e-3)),
        "Expected a finite logprob ≤ 0.001, found 0.0010999999940395355 at row 0, token 2 (index 2)",
    ),
    (put("behaviour_logprobs", 2, NAN), "Expected a finite logprob ≤ 0.001, found nan at row 0, token 2 (index 2)"),
    (put("behaviour_logprobs", 2, -INF), "Expected a finite logprob ≤ 0.001, found -inf at row 0, token 2 (index 2)"),
    (
        put("behaviour_logprobs", 6, -1.0),
        "Expected logprob 0.0 at a token that was not sampled, found -1.0 at row 2, token 1 (index 6)",
    ),
    (
        put("advantages", 6, 1.0),
        "Expected advantage 0.0 at a token without loss, found 1.0 at row 2, token 1 (index 6)",
    ),
    (put("advantages", 8, NAN), "Expected a finite advantage, found nan at row 2, token 3 (index 8)"),
    (
        put("advantages", 8, 2.0),
        f"Expected advantage {A:.8g} from the group's rewards, found 2.0 at row 2, token 3 (index 8)",
    ),
    (
        put("advantages", 8, np.float32(A * (1 + 1.6e-5))),
        f"Expected advantage {A:.8g} from the group's rewards, found {np.float32(A * (1 + 1.6e-5))} "
        "at row 2, token 3 (index 8)",
    ),
    # A row of one token cannot train, although its offsets increase.
    (
        both(put("row_offsets", 2, 4), put_json("max_row_tokens", value=5)),
        "Expected loss mask 0 at the first token of a row, found 1 at row 2, token 0 (index 4)",
    ),
    (
        both(put("row_offsets", 1, 1), put("row_offsets", 2, 1), put_json("max_row_tokens", value=8)),
        "Expected row_offsets to increase strictly, found 1 then 1 at row 1",
    ),
    # Policies.
    (
        put_json("policies", 0, value={"version": "v000006-bbbbbbbb", "manifest_sha256": "b" * 64}),
        "Expected tokens of policy v000007-aaaaaaaa or at most 0 versions older, found v000006-bbbbbbbb at index 1",
    ),
    (
        put_json("policies", 0, value={"version": "v000008-bbbbbbbb", "manifest_sha256": "b" * 64}),
        "Expected tokens of policy v000007-aaaaaaaa or at most 0 versions older, found v000008-bbbbbbbb at index 1",
    ),
    (
        put_json("policies", 0, value={"version": "v000007-bbbbbbbb", "manifest_sha256": "b" * 64}),
        "Expected tokens of policy v000007-aaaaaaaa or at most 0 versions older, found v000007-bbbbbbbb at index 1",
    ),
    (
        put_json("policies", 0, value={"version": "7", "manifest_sha256": "b" * 64}),
        "Expected policy versions like v000123-<8 hex>, found '7'",
    ),
    # Header of batch.json.
    (
        put_json("schema", value="longhaul.batch/2"),
        "Expected schema of the batch to be longhaul.batch/1, found 'longhaul.batch/2'",
    ),
    (put_json("stage", value="rft"), "Expected stage of the batch to be dapo, found 'rft'"),
    (put_json("iteration", value=4), "Expected iteration of the batch to be 3, found 4"),
    (put_json("tokenizer_sha256", value="u"), f"Expected tokenizer_sha256 of the batch to be {'t' * 64}, found 'u'"),
    (put_json("vocab_size", value=11), "Expected vocab_size of the batch to be 10, found 11"),
    (
        drop_json("trajectories", 0, "rows"),
        "Expected batch.json to have every field of longhaul.batch/1: KeyError 'rows'",
    ),
    (
        put_json("minibatches", value=None),
        "Expected batch.json to have every field of longhaul.batch/1: TypeError object of type 'NoneType' has no len()",
    ),
    (
        put_json("policies", value=[{}]),
        "Expected batch.json to have every field of longhaul.batch/1: KeyError 'manifest_sha256'",
    ),
]


@pytest.mark.parametrize(("edit", "message"), CASES)
def test_a_broken_rule_is_reported_with_position_expected_and_actual_value(
    tmp_path: Path, edit: Edit, message: str
) -> None:
    draft = make_small()
    edit(draft)
    assert refusal(tmp_path, draft) == message


def with_two_rows_of_a() -> Draft:
    """Rows 1 and 2 belong to trajectory a, row 0 to b."""
    draft = make_small()
    draft.tensors["row_trajectory"][:] = [1, 0, 0, 2]
    draft.tensors["advantages"][4] = A
    a, b, _ = draft.manifest["trajectories"]
    a |= {"rows": 2, "sampled_tokens": 3}
    b |= {"rows": 1, "sampled_tokens": 2}
    return draft


def test_a_trajectory_belongs_to_one_mini_batch(tmp_path: Path) -> None:
    draft = with_two_rows_of_a()
    assert load_small(draft, tmp_path).minibatches[0].rows == 3
    draft.manifest["minibatches"][0] |= {"rows": 2, "loss_tokens": 3}
    draft.manifest["minibatches"][1] |= {"first_row": 2, "rows": 2, "trajectories": 2, "loss_tokens": 3}
    message = "Expected trajectory 0 inside one mini-batch, found it across row 2, token 0"
    assert refusal(tmp_path, draft) == message


def test_a_trajectory_without_rows_is_counted_like_any_other(tmp_path: Path) -> None:
    draft = make_small()
    last = draft.manifest["trajectories"][2]
    draft.manifest["trajectories"].append({**last, "id": "d", "rows": 0, "sampled_tokens": 2, "masked_tokens": 0})
    draft.manifest["counts"]["trajectories"] = 4
    message = "Expected 2 loss tokens (sampled - masked) in trajectory d, found 0 from row -1, token 0"
    assert refusal(tmp_path, draft) == message
    draft.manifest["trajectories"][3]["sampled_tokens"] = 0
    assert refusal(tmp_path, draft) == "Expected 2 trajectories in mini-batch 1, found 1, listed 1"


def test_masked_tokens_of_all_trajectories_bound_the_dropped_ones(tmp_path: Path) -> None:
    draft = make_small()
    draft.tensors["policy_version"][0] = 0
    draft.manifest["trajectories"][1] |= {"sampled_tokens": 4, "masked_tokens": 1}
    draft.manifest["counts"]["dropped_nonfinite"] = 2
    assert load_small(draft, tmp_path).dropped_nonfinite == 2
    # No token listed as dropped, none masked.
    draft = make_small()
    draft.tensors["policy_version"][11] = -1
    draft.manifest["trajectories"][2] |= {"sampled_tokens": 1, "masked_tokens": 0}
    del draft.manifest["counts"]["dropped_nonfinite"]
    assert load_small(draft, tmp_path).dropped_nonfinite == 0


def test_a_policy_is_known_by_its_version_regardless_of_its_hash(tmp_path: Path) -> None:
    draft = make_small()
    draft.manifest["policies"] = [{"version": POLICY.version, "manifest_sha256": "b" * 64}]
    assert load_small(draft, tmp_path).rows == 4


def with_policies(*versions: str) -> Draft:
    """The sampled tokens of b (1, 2, 4) are of the first policy, those of a of the second, those of c of the third."""
    draft = make_small()
    version, mask = draft.tensors["policy_version"], draft.tensors["policy_version"] >= 0
    spans = [slice(0, 5), slice(5, 9), slice(9, 12)]
    for index, span in enumerate(spans[: len(versions)]):
        version[span] = np.where(mask[span], index, -1)
    draft.manifest["policies"] = [
        {"version": name, "manifest_sha256": POLICY.manifest_sha256 if name == POLICY.version else name[-8:] * 8}
        for name in versions
    ]
    return draft


def test_policies_within_the_allowed_lag_may_have_sampled(tmp_path: Path) -> None:
    draft = with_policies("v000005-bbbbbbbb", "v000006-cccccccc", "v000007-aaaaaaaa")
    assert load_small(draft, tmp_path, max_policy_lag=2).rows == 4
    older = "Expected tokens of policy v000007-aaaaaaaa or at most {} versions older, found {} at index {}"
    assert refusal(tmp_path, draft, max_policy_lag=1) == older.format(1, "v000005-bbbbbbbb", 1)
    # The first policy is the input's own: the check continues with the next one.
    draft = with_policies("v000007-aaaaaaaa", "v000006-cccccccc", "v000007-aaaaaaaa")
    assert refusal(tmp_path, draft) == older.format(0, "v000006-cccccccc", 7)
    # A policy without tokens is not checked.
    draft = make_small()
    draft.manifest["policies"].append({"version": "v000001-00000000", "manifest_sha256": "0" * 64})
    assert load_small(draft, tmp_path).rows == 4


def test_a_plain_model_directory_is_version_zero_and_named_by_its_hash(tmp_path: Path) -> None:
    plain = InputPolicy(version=None, manifest_sha256="f" * 64)
    draft = make_small()
    draft.manifest["policies"] = [{"version": "v000000-ffffffff", "manifest_sha256": "f" * 64}]
    assert load_small(draft, tmp_path, policy=plain).rows == 4
    draft.manifest["policies"] = [{"version": "v000001-bbbbbbbb", "manifest_sha256": "b" * 64}]
    message = "Expected tokens of policy ffffffff or at most 3 versions older, found v000001-bbbbbbbb at index 1"
    assert refusal(tmp_path, draft, policy=plain, max_policy_lag=3) == message
    # An equal version number with another hash is another policy, whatever the allowed lag.
    draft.manifest["policies"] = [{"version": "v000000-bbbbbbbb", "manifest_sha256": "b" * 64}]
    message = "Expected tokens of policy ffffffff or at most 3 versions older, found v000000-bbbbbbbb at index 1"
    assert refusal(tmp_path, draft, policy=plain, max_policy_lag=3) == message


def test_advantages_without_a_deviation_are_rewards_less_their_mean() -> None:
    group = {"id": "g", "rewards": [1.0, 0.0, 0.25, 0.25], "outcomes": [1, 0, 0, 0], "dropped": None}
    trajectories = [{"id": f"e{member}", "group": "g", "member": member} for member in range(4)]
    manifest: dict[str, Any] = {
        "groups": [group],
        "trajectories": trajectories,
        "adv": {"std": "none", "filter": "shaped"},
    }
    expected = [0.625, -0.375, -0.125, -0.125]
    manifest["trajectories"] = [
        entry | {"advantage": value} for entry, value in zip(trajectories, expected, strict=True)
    ]
    assert expected_advantages(manifest).tolist() == expected


def with_turns() -> Draft:
    """Tokens per turn: a 1, 1; b, over its two rows, 2, 1; c 1 and the masked one. Weight 0.5.

    Returns in g0: a: -1 -1, b: -1 0, so the first turns agree; the second are -0.5 and 0.5 off, a deviation of √0.5.
    In g1: c: -2 -2, its siblings 0 and -1. First turn: mean -1, deviation 1. Second turn: c -2 and -1, mean -1.5, deviation √0.5.
    """
    draft = make_small()
    draft.manifest["adv"]["step_weight"] = 0.5
    g0, g1 = draft.manifest["groups"]
    g0["step_rewards"], g1["step_rewards"] = [[0.0, -1.0], [-1.0, 0.0]], [[0.0, -2.0], [0.0], [0.0, -1.0]]
    a, b, c = draft.manifest["trajectories"]
    a |= {"turns": 2, "turn_tokens": [1, 1]}
    b |= {"turns": 2, "turn_tokens": [2, 1]}
    c |= {"turns": 2, "turn_tokens": [1, 1]}
    half = 0.5 / (0.5**0.5 + 1e-3)
    first_of_c = C - 0.5 / (1 + 1e-3)
    values = [0, -A, -A, 0, -A + 0.5 * half, 0, 0, A, A - 0.5 * half, 0, first_of_c, 0]
    draft.tensors["advantages"] = np.array(values, dtype=np.float32)
    return draft


def test_turns_with_rewards_have_advantages_of_their_own(tmp_path: Path) -> None:
    assert load_small(with_turns(), tmp_path).rows == 4


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        # b's last token belongs to its second turn, but gets another turn's advantage.
        (
            put("advantages", 4, np.float32(-A)),
            f"Expected advantage {-A + 0.25 / (0.5**0.5 + 1e-3):.8g} from the group's rewards, "
            f"found {np.float32(-A)} at row 1, token 1 (index 4)",
        ),
        (put_json("adv", "step_weight", value=0), "Expected adv.step_weight above 0, found 0"),
        (
            put_json("groups", 0, "step_rewards", value=[[0.0, -1.0]]),
            "Expected finite step rewards of 2 siblings in group g0",
        ),
        (
            put_json("groups", 0, "step_rewards", 0, value=[NAN, 0.0]),
            "Expected finite step rewards of 2 siblings in group g0",
        ),
        (
            put_json("groups", 1, "step_rewards", 0, value=[0.0]),
            "Expected a step reward and a count of tokens for each of 2 turns of c, found 1 and 2",
        ),
        (
            put_json("trajectories", 1, "turn_tokens", value=[1, 1]),
            "Expected turn_tokens of b to add up to 3 sampled tokens",
        ),
        (
            put_json("trajectories", 1, "turn_tokens", value=[4, -1]),
            "Expected turn_tokens of b to add up to 3 sampled tokens",
        ),
        (
            drop_json("trajectories", 0, "turn_tokens"),
            "Expected batch.json to have every field of longhaul.batch/1: KeyError 'turn_tokens'",
        ),
    ],
)
def test_turns_that_do_not_follow_from_their_rewards_are_refused(tmp_path: Path, edit: Edit, message: str) -> None:
    draft = with_turns()
    edit(draft)
    assert refusal(tmp_path, draft) == message


def with_expert() -> Draft:
    """c is an expert in g1. The group itself is dropped: the policy solved nothing there."""
    draft = make_small()
    g1 = draft.manifest["groups"][1]
    g1 |= {"rewards": [0.0, 0.0, 0.0], "outcomes": [0, 0, 0], "dropped": "outcome"}
    draft.manifest["trajectories"][2] |= {"member": None, "advantage": None, "expert": 0.25}
    draft.tensors["advantages"][10] = 0.25
    draft.tensors["behaviour_logprobs"][9:] = 0
    draft.tensors["policy_version"][9:] = -1
    return draft


def test_an_expert_may_stand_beside_a_group_that_is_dropped(tmp_path: Path) -> None:
    batch = load_small(with_expert(), tmp_path)
    assert batch.experts is not None
    assert batch.experts.tolist() == [False, False, False, True]
    assert batch.policy_tokens(5, 12).tolist() == [False, False, True, True, False, False, False]
    # A batch without experts has None.
    assert load_small(make_small(), tmp_path / "plain").experts is None


def test_an_expert_has_no_turns_of_its_own_beside_turns_with_rewards(tmp_path: Path) -> None:
    draft = with_turns()
    g1 = draft.manifest["groups"][1]
    g1 |= {"rewards": [0.0] * 3, "outcomes": [0] * 3, "dropped": "outcome", "step_rewards": [[0.0]] * 3}
    draft.manifest["trajectories"][2] |= {"member": None, "advantage": None, "expert": 0.25}
    draft.tensors["advantages"][10] = 0.25
    draft.tensors["behaviour_logprobs"][9:] = 0
    draft.tensors["policy_version"][9:] = -1
    assert load_small(draft, tmp_path).rows == 4


def test_sampled_tokens_belong_to_their_turns_in_order_however_many_there_are() -> None:
    # Two rows of 40 sampled tokens, of the second trajectory and of the first, with two turns of 20 tokens each.
    manifest = {"trajectories": [{"turn_tokens": [20, 20]}, {"turn_tokens": [20, 20]}]}
    tensors = {
        "row_offsets": np.array([0, 40, 80]),
        "row_trajectory": np.array([1, 0], dtype=np.int32),
        "policy_version": np.zeros(80, dtype=np.int32),
    }
    turns = [np.array([1.0, 2.0]), np.array([-3.0, -4.0])]
    found, magnitude = spread_over_tokens(manifest, tensors, np.array([10.0, 20.0]), turns)
    assert found.tolist() == [17.0] * 20 + [16.0] * 20 + [11.0] * 20 + [12.0] * 20
    assert magnitude.tolist() == [23.0] * 20 + [24.0] * 20 + [11.0] * 20 + [12.0] * 20


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put_json("trajectories", 2, "expert", value=0), "Expected a weight above 0 of the expert c, found 0"),
        (
            put_json("trajectories", 2, "advantage", value=0.25),
            "Expected the expert c to be no member of its group and to have no advantage",
        ),
        (
            put_json("trajectories", 2, "member", value=0),
            "Expected the expert c to be no member of its group and to have no advantage",
        ),
        (
            put("advantages", 10, 0.3),
            "Expected advantage 0.25 from the group's rewards, found 0.30000001192092896 at row 3, token 1 (index 10)",
        ),
        (
            put("policy_version", 10, 0),
            "Expected no policy of the batch (policy_version -1) in a row of an expert, found 0 at row 3, token 1 (index 10)",
        ),
        (
            put("behaviour_logprobs", 10, -0.5),
            "Expected logprob 0.0 at a token that was not sampled, found -0.5 at row 3, token 1 (index 10)",
        ),
        (
            drop_json("trajectories", 2, "expert"),
            "Expected a sampled token (policy_version ≥ 0) under loss mask 1, found -1 at row 3, token 1 (index 10)",
        ),
    ],
)
def test_an_inconsistent_expert_is_refused(tmp_path: Path, edit: Edit, message: str) -> None:
    draft = with_expert()
    edit(draft)
    assert refusal(tmp_path, draft) == message


def test_an_imitation_batch_needs_no_experts(tmp_path: Path) -> None:
    draft = make_small("rft")
    draft.manifest["trajectories"][0]["expert"] = 1.0
    assert refusal(tmp_path, draft, stage="rft") == "Expected experts in dapo batches only, found a"


def with_pairs() -> Draft:
    """One pair: a chosen, b rejected; c is left out. Row order: a's row, then b's two."""
    draft = make_small()
    tensors, manifest = draft.tensors, draft.manifest
    order = np.array([5, 6, 7, 8, 0, 1, 2, 3, 4])
    for name in ("input_ids", "behaviour_logprobs", "advantages", "policy_version", "loss_mask"):
        tensors[name] = tensors[name][order]
    tensors["row_offsets"] = np.array([0, 4, 7, 9], dtype=np.int64)
    tensors["row_trajectory"] = np.array([0, 1, 1], dtype=np.int32)
    tensors["advantages"] = np.array([0, 0, 1, 1, 0, -1, -1, 0, -1], dtype=np.float32)
    del manifest["trajectories"][2]
    for entry, sign in zip(manifest["trajectories"], (1, -1), strict=True):
        entry["advantage"] = sign
    manifest["adv"] = {"pairs": "outcome", "filter": "outcome"}
    manifest["counts"] |= {"rows": 3, "trajectories": 2, "tokens": 9, "loss_tokens": 5, "dropped_nonfinite": 0}
    manifest["minibatches"] = [{"first_row": 0, "rows": 3, "trajectories": 2, "loss_tokens": 5}]
    return draft


def test_a_batch_of_pairs_is_read_where_the_job_wants_one(tmp_path: Path) -> None:
    assert load_small(with_pairs(), tmp_path, pairs=True).rows == 3
    assert "Expected a batch without adv.pairs" in refusal(tmp_path, with_pairs())
    assert "Expected a batch with adv.pairs" in refusal(tmp_path, make_small(), pairs=True, batch_size=4)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put_json("adv", "pairs", value="reward"), "Expected adv.pairs to be 'outcome', found 'reward'"),
        # The rejected trajectory comes first.
        (
            both(
                put_json("groups", 0, "outcomes", value=[0, 1]),
                put_json("trajectories", 0, "advantage", value=-1),
                put_json("trajectories", 1, "advantage", value=1),
            ),
            "Expected a chosen and a rejected trajectory of one group from a on, found [('g0', -1), ('g0', 1)]",
        ),
        (
            both(
                put_json("groups", 0, "outcomes", value=[1, 1]),
                put_json("trajectories", 1, "advantage", value=1),
            ),
            "Expected a chosen and a rejected trajectory of one group from a on, found [('g0', 1), ('g0', 1)]",
        ),
        (
            put_json("trajectories", 1, "group", value="g1"),
            "Expected a chosen and a rejected trajectory of one group from a on, found [('g0', 1), ('g1', -1)]",
        ),
        (
            put_json("groups", 0, "outcomes", value=[0, 0]),
            "Expected advantage -1 of a from its group's rewards, found 1",
        ),
        (
            put("advantages", 2, 0.5),
            "Expected advantage 1 from the group's rewards, found 0.5 at row 0, token 2 (index 2)",
        ),
    ],
)
def test_invalid_pairs_are_refused(tmp_path: Path, edit: Edit, message: str) -> None:
    draft = with_pairs()
    edit(draft)
    assert refusal(tmp_path, draft, pairs=True) == message


def test_no_pair_is_in_two_mini_batches(tmp_path: Path) -> None:
    """Three pairs in mini-batches of two pairs and one. Trajectories alone would be cut into three and three."""
    one = with_pairs()
    tensors, manifest = one.tensors, one.manifest
    offsets = tensors["row_offsets"]
    many = {name: np.concatenate([values] * 3) for name, values in tensors.items()}
    many["row_offsets"] = np.concatenate([offsets[:-1], offsets[:-1] + 9, offsets + 18])
    many["row_trajectory"] = np.concatenate([tensors["row_trajectory"] + 2 * pair for pair in range(3)])
    group, trajectories = manifest["groups"][0], manifest["trajectories"]
    manifest |= {
        "groups": [{**group, "id": f"g{pair}"} for pair in range(3)],
        "trajectories": [
            {**entry, "id": f"{pair}{entry['id']}", "group": f"g{pair}"} for pair in range(3) for entry in trajectories
        ],
        "minibatches": [
            {"first_row": 0, "rows": 6, "trajectories": 4, "loss_tokens": 10},
            {"first_row": 6, "rows": 3, "trajectories": 2, "loss_tokens": 5},
        ],
    }
    manifest["counts"] |= {"rows": 9, "trajectories": 6, "groups": 3, "tokens": 27, "loss_tokens": 15}
    draft = Draft(tensors=many, manifest=manifest)
    batch = load_small(draft, tmp_path / "whole", pairs=True, batch_size=4)
    assert [part.trajectories for part in batch.minibatches] == [4, 2]
    manifest["minibatches"] = [
        {"first_row": 0, "rows": 4, "trajectories": 3, "loss_tokens": 7},
        {"first_row": 4, "rows": 5, "trajectories": 3, "loss_tokens": 8},
    ]
    message = refusal(tmp_path / "cut", draft, pairs=True, batch_size=4)
    assert message == "Expected 4 trajectories in mini-batch 0, found 3, listed 3"


def test_advantages_in_an_imitation_batch_are_refused(tmp_path: Path) -> None:
    draft = make_small("rft")
    draft.manifest["adv"] = {"std": "n-1"}
    assert refusal(tmp_path, draft, stage="rft") == "Expected adv to be null in an rft batch, found {'std': 'n-1'}"


def test_files_other_than_the_announced_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "batch.json"
    with pytest.raises(JobError) as caught:
        load_nothing(tmp_path / "nowhere")
    assert caught.value.message == f"Cannot read {tmp_path / 'nowhere' / 'batch.json'}: No such file or directory"
    found = make_small().write(tmp_path)
    assert refusal(tmp_path, make_small(), manifest_sha256="0") == f"Expected batch.json to hash to 0, found {found}"
    for data, message in ((b"[1]", "Expected an object in batch.json"), (b"{", "Expected JSON in batch.json: ")):
        path.write_bytes(data)
        with pytest.raises(JobError) as caught:
            load_nothing(tmp_path, manifest_sha256=sha256(data))
        assert caught.value.message.startswith(message)
        assert (caught.value.message == message) == (data == b"[1]")


def load_nothing(root: Path, manifest_sha256: str = "0") -> None:
    """Like `load_small`, without writing the batch."""

    class Written:
        def write(self, directory: Path) -> str:
            return manifest_sha256

    load_small(Written(), root)  # type: ignore[arg-type]


def rewrite(root: Path, **changes: Any) -> str:
    """Edits only batch.json and returns its new hash."""
    path = root / "batch.json"
    data = json.dumps({**json.loads(path.read_text()), **changes}).encode()
    path.write_bytes(data)
    return sha256(data)


def refused_as_it_is(root: Path, manifest_sha256: str) -> str:
    with pytest.raises(JobError) as caught:
        load_nothing(root, manifest_sha256)
    assert caught.value.code == BATCH_REFUSED
    return caught.value.message


def test_size_hash_and_description_are_compared_with_the_tensor_file(tmp_path: Path) -> None:
    make_small().write(tmp_path)
    entry = json.loads((tmp_path / "batch.json").read_text())["file"]
    size, digest = entry["bytes"], entry["sha256"]
    name = "batch.safetensors"
    sha = rewrite(tmp_path, file={**entry, "bytes": size + 1})
    assert refused_as_it_is(tmp_path, sha) == f"Expected {name} to have {size + 1} bytes, found {size}"
    sha = rewrite(tmp_path, file={**entry, "sha256": "0"})
    assert refused_as_it_is(tmp_path, sha) == f"Expected {name} to hash to 0, found {digest}"
    sha = rewrite(tmp_path, file={**entry, "name": "other"})
    assert refused_as_it_is(tmp_path, sha) == f"Expected other to have {size} bytes, found None"
    # Only the file name counts: a batch cannot point outside its directory.
    assert sha256((tmp_path / name).read_bytes()) == digest
    sha = rewrite(tmp_path, file={**entry, "name": f"../../{name}"})
    load_nothing(tmp_path, sha)
    tensors = json.loads((tmp_path / "batch.json").read_text())["tensors"]
    assert tensors == {
        "row_offsets": {"dtype": "I64", "shape": [5]},
        "row_trajectory": {"dtype": "I32", "shape": [4]},
        "input_ids": {"dtype": "I32", "shape": [12]},
        "behaviour_logprobs": {"dtype": "F32", "shape": [12]},
        "advantages": {"dtype": "F32", "shape": [12]},
        "policy_version": {"dtype": "I32", "shape": [12]},
        "loss_mask": {"dtype": "U8", "shape": [12]},
    }
    sha = rewrite(tmp_path, file=entry, tensors={"row_offsets": {}})
    assert (
        refused_as_it_is(tmp_path, sha) == f"Expected batch.json to describe {tensors}, found {{'row_offsets': {{}}}}"
    )


def with_header(draft: Draft, edit: Callable[[str], str], *, align: int = 64) -> Draft:
    def rewrite(data: bytes) -> bytes:
        length = struct.unpack("<Q", data[:8])[0]
        text = edit(data[8 : 8 + length].decode().rstrip()).encode()
        text += b" " * (-(8 + len(text)) % align)
        return struct.pack("<Q", len(text)) + text + data[8 + length :]

    draft.edit_bytes = rewrite
    return draft


NAME = "batch.safetensors"
ALL = ["row_offsets", "row_trajectory", "input_ids", "behaviour_logprobs", "advantages", "policy_version", "loss_mask"]


def test_malformed_headers_are_refused_even_if_safetensors_accepts_them(tmp_path: Path) -> None:
    def found(edit: Callable[[str], str], **named: int) -> str:
        return refusal(tmp_path, with_header(make_small(), edit, **named))

    twice = "Expected each name once in the header of batch.safetensors, found twice: advantages, loss_mask"
    last = '"advantages":{},"loss_mask":{}}'
    assert found(lambda text: f"{text[:-1]},{last}") == twice
    assert found(lambda text: "[1]") == f"Expected an object in the header of {NAME}"
    assert found(lambda text: "{,").startswith(f"Expected JSON in the header of {NAME}: Expecting property name")
    message = found(lambda text: text, align=16)
    assert message.startswith(f"Expected the data of {NAME} to begin at a multiple of 64, got ")
    assert found(lambda text: text.replace('"I64"', '"U64"')) == (
        "Expected tensor row_offsets to be {'dtype': 'I64', 'shape': [5], 'data_offsets': [0, 40]}, "
        "found {'dtype': 'U64', 'shape': [5], 'data_offsets': [0, 40]}"
    )
    assert found(lambda text: text.replace("[12]", "[13]", 1)) == (
        "Expected tensor input_ids to be {'dtype': 'I32', 'shape': [12], 'data_offsets': [56, 104]}, "
        "found {'dtype': 'I32', 'shape': [13], 'data_offsets': [56, 104]}"
    )
    draft = with_header(make_small(), lambda text: '{"__metadata__":{"by":"us"},' + text[1:])
    assert load_small(draft, tmp_path).rows == 4


def test_a_file_with_too_few_or_too_many_bytes_is_refused(tmp_path: Path) -> None:
    draft = make_small()
    draft.write(tmp_path)
    whole = (tmp_path / NAME).read_bytes()
    size, length = len(whole), struct.unpack("<Q", whole[:8])[0]

    def found(data: bytes) -> str:
        draft.edit_bytes = lambda _: data
        return refusal(tmp_path, draft)

    assert found(whole + b"\0") == f"Expected {NAME} to have {size} bytes, found {size + 1}"
    assert found(whole[:-1]) == f"Expected {NAME} to have {size} bytes, found {size - 1}"
    header = f"Expected a safetensors header in {NAME}, got length {{}} of {{}} bytes"
    assert found(b"1234567") == header.format(1024 * 1024 + 1, 7)
    assert found(struct.pack("<Q", 2**63 + 5) + whole[8:]) == header.format(2**63 + 5, size)
    assert found(struct.pack("<Q", size - 7) + whole[8:]) == header.format(size - 7, size)
    # A header may extend to the end of the file; it then names no tensors.
    empty = b"{}" + b" " * 54
    message = found(struct.pack("<Q", len(empty)) + empty)
    assert message == f"Expected the tensors of stage dapo in the order {ALL}, found []"
    assert found(struct.pack("<Q", 2**20 + 1) + b" " * (2**20 + 100)) == header.format(2**20 + 1, 2**20 + 108)
    full = b"{}" + b" " * (2**20 - 2)
    assert found(struct.pack("<Q", 2**20) + full).startswith(f"Expected the data of {NAME} to begin at a multiple")
    assert length % 64 == 56


def test_each_stage_has_its_tensors_and_their_order(tmp_path: Path) -> None:
    def found(stage: str, names: list[str]) -> str:
        draft = make_small()
        if stage == "rft":
            draft.manifest |= make_small("rft").manifest
        draft.tensors = {name: draft.tensors[name] for name in names}
        return refusal(tmp_path, draft, stage=stage)

    order = "Expected the tensors of stage {} in the order {}, found {}"
    for name in ALL:
        left = [other for other in ALL if other != name]
        assert found("dapo", left) == order.format("dapo", ALL, left)
    without = [name for name in ALL if name != "advantages"]
    assert found("rft", ALL) == order.format("rft", without, ALL)
    needed = ["row_offsets", "row_trajectory", "input_ids", "loss_mask"]
    for name in needed:
        left = [other for other in needed if other != name]
        assert found("rft", left) == order.format("rft", needed, left)
    swapped = ["row_trajectory", "row_offsets", "input_ids", "loss_mask"]
    assert found("rft", swapped) == order.format("rft", needed, swapped)


def test_the_constants_of_these_tests_equal_the_rule() -> None:
    # n - 1 in the deviation: of 1 and 0 it is √(0.25 + 0.25); of 2, 0 and 1 it is √((1 + 1 + 0) / 2).
    assert pytest.approx(0.5 / (math.sqrt(0.5) + 1e-3)) == A
    assert pytest.approx(1 / 1.001) == C
